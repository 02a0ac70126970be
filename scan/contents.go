package scan

import (
	"io"
	"path"
	"strings"
)

// signatures are the first bytes of programs and archives.
var signatures = []struct {
	magic   string
	program bool
	name    string
}{
	{"\x7fELF", true, "a Linux program"}, {"MZ", true, "a Windows program"},
	{"\xfe\xed\xfa\xce", true, "a macOS program"}, {"\xfe\xed\xfa\xcf", true, "a macOS program"}, {"\xce\xfa\xed\xfe", true, "a macOS program"}, {"\xcf\xfa\xed\xfe", true, "a macOS program"}, {"\xca\xfe\xba\xbe", true, "a macOS or Java program"},
	{"PK\x03\x04", false, "a ZIP archive"}, {"\x1f\x8b", false, "a gzip archive"}, {"7z\xbc\xaf\x27\x1c", false, "a 7-Zip archive"}, {"Rar!\x1a\x07", false, "a RAR archive"}, {"\xfd7zXZ\x00", false, "an xz archive"}, {"BZh9", false, "a bzip2 archive"},
}

// documents are extensions of files that are ZIP archives and not meant to be unpacked.
var documents = set(".docx .xlsx .pptx .dotx .potx .xltx .odt .ods .odp .epub .whl .jar .apk .vsix .3mf .key .numbers .pages .kra .sketch .nupkg")

// plainFiles are extensions that promise that a file is neither a program nor an archive.
var plainFiles = set(".png .jpg .jpeg .gif .webp .svg .ico .bmp .md .txt .json .yaml .yml .csv .pdf .html .css .py .js .ts .sh .ttf .otf .woff .woff2 .mp3 .mp4 .wav .log .xml .toml")

// contents checks the first bytes of a file.
func (s *scanner) contents(f *source, data []byte) {
	head := string(data[:min(len(data), 512)])
	for _, x := range signatures {
		if !strings.HasPrefix(head, x.magic) || x.magic == "MZ" && (len(data) < 64 || !strings.Contains(head, "\x00")) {
			continue
		}
		ext, id := strings.ToLower(path.Ext(f.path)), "bundled-archive"
		switch {
		case plainFiles[ext]:
			id = "disguised-file"
		case x.program:
			id = "bundled-program"
		case strings.HasPrefix(x.magic, "PK") && len(head) > 7 && head[6]&1 != 0:
			id = "encrypted-archive"
		case documents[ext]:
			return
		}
		r := table.byID[id]
		c := r.Confidence
		if f.fixture {
			c = less(c)
		}
		s.finish(r, Finding{File: f.path, Excerpt: x.name, Confidence: c}, string(data))
		return
	}
}

// start returns the first bytes of a file.
func (s *scanner) start(name string, most int64) []byte {
	r, err := s.files.Open(name)
	if err != nil {
		return nil
	}
	defer r.Close()
	data, _ := io.ReadAll(io.LimitReader(r, most))
	return data
}

const magicLen = 512 // bytes

// payloads finds encoded commands in text.
func (s *scanner) payloads(f *source) {
	text := f.text
	for i := 0; i < len(text); {
		if !base64Letter[text[i]] {
			i++
			continue
		}
		from := i
		for i < len(text) && base64Letter[text[i]] {
			i++
		}
		if i-from < minPayload || i-from > maxPayload || strings.HasSuffix(text[max(0, from-8):from], "base64,") {
			continue
		}
		n := (i - from) / 4 * 4
		plain := plainText(text[from:i])
		if plain == "" {
			plain = plainText(text[from : from+n])
		}
		if plain != "" && commandLike(plain) {
			u := unit{file: f, place: inScript}
			s.addText(f, table.byID["encoded-command"], from, &u, plain)
		}
	}
}

const (
	minPayload = 40       // bytes of base64
	maxPayload = 64 << 10 // bytes of base64
)

var base64Letter = func() (is [256]bool) {
	for i := range len(base64Letters) {
		is[base64Letters[i]] = true
	}
	return is
}()

// commandLike reports whether decoded text looks like code that runs or fetches something.
func commandLike(plain string) bool {
	for _, sign := range []string{"curl ", "wget ", "/bin/sh", "/bin/bash", "bash -", "powershell", "eval(", "exec(", "os.system", "subprocess", "Invoke-", "/dev/tcp/", "rm -rf", "child_process", "DownloadString"} {
		if strings.Contains(plain, sign) {
			return true
		}
	}
	return false
}
