package scan

import (
	"encoding/base64"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// enter follows the working folder.
func (t *tracer) enter(args []string) {
	args = slices.DeleteFunc(slices.Clone(args), func(w string) bool { return strings.HasPrefix(w, "-") })
	if t.folder = "~"; len(args) > 0 {
		t.folder = strings.TrimSuffix(strings.Replace(args[0], "${HOME}", "~", 1), "/")
	}
	switch {
	case len(args) > 0 && strings.Trim(args[0], "/") == "":
		t.folder = "/"
	case t.folder != "~" && secretPath(strings.ToLower(t.folder)) == "":
		t.folder = ""
	}
}

// outputOf returns the file that a program writes its input to, or "".
func outputOf(program string, words []string) string {
	for i, w := range words[1:] {
		switch {
		case program == "zip" && !strings.HasPrefix(w, "-"):
			return w
		case i+2 >= len(words):
		case program == "tar" && (i == 0 || strings.HasPrefix(w, "-")) && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "f"),
			(program == "gpg" || program == "openssl" || program == "base64" || program == "age") && (w == "-o" || w == "-out" || w == "--output"):
			return words[i+2]
		}
	}
	return ""
}

// local reports whether an argument is an address of this machine or its network.
func local(words []string) bool {
	return slices.ContainsFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") && hostOf(w).local })
}

// printsToken reports whether a command prints a credential. It is a login if it is an argument of
// another command, so only a pipe is followed.
func printsToken(program, args string) bool {
	for _, p := range tokenPrinters {
		if name, rest, _ := strings.Cut(p, " "); name == program && strings.Contains(args, rest) {
			return true
		}
	}
	return false
}

var tokenPrinters = []string{"gpg --export-secret", "git credential fill", "gh auth token", "aws sts get-session-token", "aws configure export-credentials", "gcloud auth print-access-token",
	"az account get-access-token", "security find-generic-password", "security find-internet-password", "secret-tool lookup", "pass show", "op read"}

// uploads3 reports whether a command copies files into a storage service.
func uploads3(program, args string) bool {
	return storage[program] && (strings.Contains(args, " s3://") || strings.Contains(args, " gs://") || program == "azcopy")
}

// fetch handles the programs that download and upload.
func (t *tracer) fetch(a *action, words []string) {
	sends, output, addressed := false, "", false
	for i, w := range words[1:] {
		next := ""
		if i+2 < len(words) {
			next = words[i+2]
		}
		switch {
		case w == "-o" || w == "--output" || w == "-O" && a.program == "wget" || w == "-OutFile":
			output = next
		case sendOption.MatchString(w):
			sends = true
			a.in |= t.secretIn(afterAt(next)) | t.secretIn(afterAt(w))
		case strings.Contains(w, "://") || looksLikeHost(w):
			addressed = addressed || !strings.Contains(w, "${")
			a.out |= origin(w)
			if output == "" && a.program != "curl" {
				output = path.Base(w)
			}
			sends = sends || t.values(w)&(secret|environ) != 0 || strings.Contains(w, "$(…)") && a.in&(secret|environ) != 0
		}
		if w == "-O" && a.program == "curl" || w == "-LO" || w == "-OL" || w == "-fsSLO" {
			output = "?"
		}
	}
	if output == "?" {
		for _, w := range words[1:] {
			if strings.Contains(w, "://") {
				output = path.Base(w)
			}
		}
	}
	if a.out != 0 && output != "" {
		t.files[output] |= a.out
		t.files["./"+output] |= a.out
	}
	if a.out&(download|installer|untrusted) == 0 && !addressed && !local(words) {
		a.out |= download // the address is in a variable or a file
	}
	if (a.program == "http" || a.program == "https" || a.program == "xh") && a.in&(secret|environ) != 0 {
		sends = true // its standard input is the body
	}
	if sends {
		if a.does = transmits; t.folder != "" && secretPath(strings.ToLower(t.folder)) != "" {
			a.in |= secret // of a file in the working folder
		}
	}
}

func afterAt(w string) string {
	if _, file, ok := strings.Cut(w, "@"); ok {
		return file
	}
	return w
}

var sendOption = regexp.MustCompile(`^(-d|--data.*|-F|--form.*|-T|--upload-file.*|--json|--post-data.*|--post-file.*|--body-.*|-Body|-InFile)$|^-(d|F|T)[@a-z]`)

func looksLikeHost(w string) bool {
	return !strings.HasPrefix(w, "-") && strings.Contains(w, ".") && strings.Contains(w, "/") && !strings.ContainsAny(w, "{}:, '\"") && w[0] != '.' && w[0] != '/'
}

// origin returns the labels of data from an address.
func origin(address string) label {
	switch h := hostOf(address); {
	case h.local:
		return 0
	case h.installer:
		return installer
	case h.risky():
		return download | untrusted
	}
	return download
}

// interpret handles the programs that execute code.
func (t *tracer) interpret(a *action, words []string) {
	flags := interpreters[a.program]
	operand := false
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case flags != "" && strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.ContainsAny(w, flags):
			a.does = executes
			operand = true
			if i+1 < len(words) {
				a.text = words[i+1]
			}
			i = len(words)
		case w == "-" || w == "/dev/stdin" || w == "-s":
		case strings.HasPrefix(w, "-"):
		case strings.HasPrefix(w, "<("):
			a.does, operand = executes, true
		default:
			if !operand && t.files[w] != 0 {
				a.does = executes
				a.in |= t.files[w]
			}
			operand = true
		}
	}
	if !operand && (a.in != 0 || len(a.Inputs) > 0) {
		a.does = executes
	}
	if !operand && a.Text != "" {
		a.text = a.Text
	}
	a.lang = codeOf(a.program)
}

// plainText decodes base64 if the result is text.
func plainText(w string) string {
	w = strings.TrimRight(w, "=\n ")
	if len(w) < 16 || len(w) > 64<<10 || strings.Trim(w, base64Letters) != "" {
		return ""
	}
	b, err := base64.RawStdEncoding.DecodeString(w)
	if err != nil || !utf8.Valid(b) {
		return ""
	}
	for _, c := range string(b) {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return ""
		}
	}
	return string(b)
}

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func decodes(program, args string) bool {
	switch program {
	case "base64", "base32", "gbase64":
		return decodeFlag.MatchString(args)
	case "openssl":
		return strings.Contains(args, " -d")
	case "xxd":
		return strings.Contains(args, "-r")
	case "rev", "uudecode", "zcat", "xzcat", "bzcat":
		return true
	case "gzip", "gunzip", "xz", "bzip2":
		return unpackFlag.MatchString(" " + args)
	case "tr":
		return strings.Contains(strings.ToLower(args), "a-z") && strings.Contains(strings.ToLower(args), "n-z")
	}
	return false
}

var unpackFlag = regexp.MustCompile(` (-[a-z]*c[a-z]*|--stdout|--to-stdout)\b`)

var decodeFlag = regexp.MustCompile(`(^| )(-d|-D|--decode|-di)( |$)`)

var (
	fetchers     = set("curl wget iwr invoke-webrequest invoke-restmethod irm aria2c http https xh fetch lynx")
	readers      = set("cat head tail less more cp mv tar zip gzip base64 xxd openssl grep sed awk sort strings od scp rsync gpg dd jq cut tee curl source . sqlite3 find ls rclone aws gsutil s3cmd azcopy gh swaks")
	senders      = set("nc ncat netcat socat scp sftp ftp rsync rclone telnet sendmail mail mutt swaks")
	sources      = set("nc ncat netcat socat telnet ssh dig") // what they print comes from the network
	storage      = set("aws gsutil s3cmd azcopy")
	lookups      = set("nslookup dig host ping")
	interpreters = map[string]string{"sh": "c", "bash": "c", "zsh": "c", "dash": "c", "ksh": "c", "fish": "c", "python": "c", "python3": "c", "node": "e", "perl": "e", "ruby": "e", "php": "r", "osascript": "e", "pwsh": "c", "powershell": "c", "iex": "", "invoke-expression": "", "deno": "", "bun": "e"}
)
