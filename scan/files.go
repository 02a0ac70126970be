package scan

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"metier/skillmd"
)

// scanner is the state of a scan.
type scanner struct {
	ctx      context.Context
	started  []started // by the instructions
	done     map[content]same
	files    fs.FS
	limits   Options
	front    skillmd.Front
	frontAt  string // the file with the frontmatter
	found    []source
	coverage Coverage
	findings []Finding
	counts   map[string]int // findings by rule and file, and by identity
	blast    map[string]place
	hosts    map[string]bool
}

// content identifies what is found in a file: its bytes, and how they are read.
type content struct {
	sum              [sha256.Size]byte
	lang             string
	fixture, attacks bool
}

// same is a file with some content, and whether something was found in it.
type same struct {
	file  string
	found bool
}

// place is where something was seen.
type place struct {
	file string
	line int
}

// source is a file of the skill.
type source struct {
	path    string
	size    int64
	lang    string // "" if it is not known
	text    string
	lines   []int // offset of each line
	fixture bool  // it belongs to tests or samples, which a run does not use
	attacks bool  // its name announces that it describes attacks
	partly  bool
}

func limitsOf(o *Options) Options {
	l := *o
	l.MaxFiles, l.MaxFile, l.MaxBytes = cmp.Or(o.MaxFiles, maxFiles), cmp.Or(o.MaxFile, maxFile), cmp.Or(o.MaxBytes, maxBytes)
	return l
}

// walk lists the files in the order of their paths.
func (s *scanner) walk() error {
	s.blast = map[string]place{}
	return fs.WalkDir(s.files, ".", func(p string, d fs.DirEntry, err error) error {
		if ctx := s.ctx.Err(); ctx != nil {
			return ctx
		}
		switch {
		case err != nil && p == ".":
			return err
		case err != nil:
			s.leaveOut(p, 0, "it cannot be read")
			return nil
		case d.IsDir() && d.Name() == ".git":
			s.coverage.skip(p, "a Git repository")
			return fs.SkipDir
		case d.IsDir() && strings.Count(p, "/") >= maxDepth:
			s.coverage.skip(p, "it is too deep")
			return fs.SkipDir
		case d.IsDir():
			return nil
		case s.coverage.Files >= 8*s.limits.MaxFiles:
			s.unread(p, "too many files; this one and those after it are not counted", true)
			return fs.SkipAll
		}
		s.list(p, d)
		return nil
	})
}

const maxDepth = 32 // folders

func (s *scanner) list(p string, d fs.DirEntry) {
	info, err := d.Info()
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		s.leaveOut(p, 0, "a link; links are not followed")
	case err != nil || !d.Type().IsRegular():
		s.leaveOut(p, 0, "not a regular file")
	case len(s.found) >= s.limits.MaxFiles:
		s.leaveOut(p, info.Size(), fmt.Sprintf("more than %d files", s.limits.MaxFiles))
	default:
		s.coverage.Files++
		s.coverage.Bytes += info.Size()
		f := source{path: p, size: info.Size(), lang: language(p), fixture: fixture(p), attacks: aboutAttacks(strings.ToLower(strings.Map(spaced, p)))}
		for _, x := range s.started {
			if strings.HasSuffix(x.word, p) { // the folder before it can be a variable
				if f.fixture, f.attacks = false, false; f.lang == "" || f.lang == data {
					f.lang = x.lang
				}
			}
		}
		s.found = append(s.found, f)
	}
}

func spaced(r rune) rune {
	if strings.ContainsRune("-_./", r) {
		return ' '
	}
	return r
}

func (s *scanner) leaveOut(p string, size int64, why string) {
	s.coverage.Files++
	s.coverage.Bytes += size
	s.coverage.Unread.add(size)
	s.unread(p, why, executable(language(p)))
}

// unread reports a file that is not read. Instructions and programs are findings.
func (s *scanner) unread(p, why string, used bool) {
	s.coverage.skip(p, why)
	if used || mainFile(p) || strings.HasPrefix(p, "scripts/") || slices.ContainsFunc(s.started, func(x started) bool { return strings.HasSuffix(x.word, p) }) {
		r := table.byID["unread-file"]
		if s.counts[r.ID]++; s.counts[r.ID] > maxOfRule {
			s.coverage.Findings++
			return
		}
		s.finish(r, Finding{File: p, Excerpt: why, Confidence: r.Confidence}, why)
	}
}

// mainFile reports whether a path is that of the skill's instructions.
func mainFile(p string) bool { return strings.EqualFold(p, "SKILL.md") }

// file reads one file and applies the rules to it.
func (s *scanner) file(f *source) {
	raw, why := s.read(f)
	s.contents(f, raw)
	f.text = plain(raw)
	if lang := interpreter(f.text); lang != "" && (f.lang == "" || f.lang == data) {
		f.lang = lang
	}
	if why == "" && binary([]byte(f.text)) && !executable(f.lang) && f.lang != markdown { // a shell executes a script with a NUL
		why = "not text"
	}
	if why != "" {
		s.coverage.Unread.add(f.size)
		s.unread(f.path, why, executable(f.lang))
		f.text = ""
		return
	}
	key := content{sha256.Sum256(raw), f.lang, f.fixture, f.attacks}
	if x, seen := s.done[key]; seen && !mainFile(f.path) {
		if x.found {
			s.coverage.skip(f.path, "it has the same content as "+x.file+", and the same findings")
		}
		s.covered(f)
		return
	}
	before := len(s.findings)
	for i := 0; i < len(f.text); i++ {
		if i == 0 || f.text[i-1] == '\n' {
			f.lines = append(f.lines, i)
		}
	}
	s.addresses(f)
	s.characters(f)
	s.payloads(f)
	switch f.lang {
	case markdown:
		s.document(f)
	case shellCode:
		s.commands(f, unit{file: f, place: inScript, text: f.text, starts: []segment{{0, 0}}})
		s.orders(f)
	default:
		u := unit{file: f, place: inScript, text: f.text, starts: []segment{{0, 0}}}
		s.statements(f, u, f.lang)
		s.orders(f)
		s.lines(f, u)
		s.coverage.unknown = s.coverage.unknown || f.lang == ""
	}
	s.done[key] = same{f.path, len(s.findings) > before}
	s.covered(f)
}

// covered counts a file that was read.
func (s *scanner) covered(f *source) {
	if f.lang == markdown || f.lang == shellCode {
		s.coverage.Parsed.add(f.size)
	} else {
		s.coverage.Searched.add(f.size)
	}
	if f.partly {
		s.coverage.skip(f.path, "only a part was parsed; the rest was searched")
	}
	f.text, f.lines = "", nil
}

// read returns the bytes of a file, and why the file is not read. For a file that is too large, it
// returns the first bytes.
func (s *scanner) read(f *source) (data []byte, why string) {
	if f.size > s.limits.MaxFile {
		return s.start(f.path, magicLen), fmt.Sprintf("more than %d bytes", s.limits.MaxFile)
	}
	if f.size > s.limits.MaxBytes {
		return s.start(f.path, magicLen), "the files before it reached the limit of bytes"
	}
	s.limits.MaxBytes -= f.size
	r, err := s.files.Open(f.path)
	if err != nil {
		return nil, "it cannot be read"
	}
	defer r.Close()
	data, err = io.ReadAll(io.LimitReader(r, f.size+1))
	switch {
	case err != nil:
		return nil, "it cannot be read"
	case int64(len(data)) > f.size:
		return nil, "it changed during the scan"
	}
	return data, ""
}

// plain returns the text of a file. UTF-16 with a byte order mark, and lines that end with a carriage
// return alone, are converted.
func plain(b []byte) string {
	if len(b) < 2 || b[0]^b[1] != 0x01 || b[0] < 0xfe {
		if bytes.IndexByte(b, '\n') < 0 { // the lines of an old Mac
			b = bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
		}
		return string(b)
	}
	out := make([]uint16, len(b)/2-1)
	for i := range out {
		if out[i] = uint16(b[2*i+3])<<8 | uint16(b[2*i+2]); b[0] == 0xfe {
			out[i] = out[i]<<8 | out[i]>>8
		}
	}
	return string(utf16.Decode(out))
}

// binary reports whether data is not text.
func binary(data []byte) bool {
	head := data[:min(len(data), 8<<10)]
	return bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(data) && bytes.Count(head, []byte{0x1b})+invalid(head) > len(head)/10
}

func invalid(b []byte) (n int) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			n++
		}
		b = b[size:]
	}
	return n
}

// The languages that are told apart.
const (
	markdown   = "markdown"
	shellCode  = "shell"
	python     = "python"
	javascript = "javascript"
	powershell = "powershell"
	data       = "data"
)

var extensions = map[string]string{
	".md": markdown, ".mdx": markdown, ".markdown": markdown, ".mdc": markdown,
	".sh": shellCode, ".bash": shellCode, ".zsh": shellCode, ".ksh": shellCode, ".command": shellCode,
	".py": python, ".pyw": python, ".rb": python, ".pl": python,
	".js": javascript, ".mjs": javascript, ".cjs": javascript, ".ts": javascript, ".mts": javascript, ".cts": javascript, ".tsx": javascript, ".jsx": javascript, ".php": javascript, ".go": javascript, ".rs": javascript, ".java": javascript, ".swift": javascript,
	".ps1": powershell, ".psm1": powershell, ".bat": powershell, ".cmd": powershell,
	".json": data, ".yaml": data, ".yml": data, ".toml": data, ".txt": data, ".csv": data, ".xml": data, ".html": data, ".svg": data, ".jsonl": data,
}

// executable reports whether a language is one that runs.
func executable(lang string) bool { return lang != "" && lang != data && lang != markdown }

func language(p string) string { return extensions[strings.ToLower(path.Ext(p))] }

// interpreter returns the language that the first line names.
func interpreter(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	for w := range strings.FieldsSeq(strings.ReplaceAll(line[2:], "/", " ")) {
		switch w = strings.TrimRight(w, "0123456789.\r"); w {
		case "sh", "bash", "zsh", "dash", "ksh":
			return shellCode
		case "python", "pypy", "uv", "ruby", "perl":
			return python
		case "node", "deno", "bun", "tsx", "ts-node":
			return javascript
		case "pwsh":
			return powershell
		}
	}
	return ""
}

var fixtureFolders = strings.Fields("test tests fixtures test-fixtures testdata spec specs __tests__ evals eval samples corpus")

func fixture(p string) bool {
	return slices.ContainsFunc(strings.Split(path.Dir(strings.ToLower(p)), "/"), func(dir string) bool { return slices.Contains(fixtureFolders, dir) })
}

// at returns the line and column of an offset.
func (f *source) at(offset int) (line, column int) {
	i, _ := slices.BinarySearch(f.lines, offset+1)
	if i == 0 {
		return 1, 1
	}
	start := f.lines[i-1]
	return i, utf8.RuneCountInString(f.text[start:min(offset, len(f.text))]) + 1
}
