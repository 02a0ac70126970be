package shell

import (
	"path"
	"strings"
)

// data are programs and builtins whose arguments and input are only data: none of their options
// starts a program.
var data = set(`: true false echo printf pwd cd exit return break continue shift times umask ulimit kill fg bg disown dirs pushd popd type help logout suspend caller getconf
 cat head tail wc uniq cut tr tee ls dir vdir stat file du df date sleep usleep seq basename dirname realpath readlink mkdir rmdir rm unlink link cp mv ln touch chmod chown chgrp mkfifo mknod mktemp
 grep egrep fgrep diff cmp comm paste join nl od hexdump xxd base32 base64 basenc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum printenv uname whoami id groups hostname which
 whereis yes expr fold fmt csplit shuf tac rev column jq yq tput clear tsort factor numfmt nproc arch cal ncal ps pgrep pkill killall free uptime sync dd truncate shred expand unexpand pr ptx pathchk tty stty
 logname users who hostid gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd zstdcat lz4 unzip zipinfo patch tree strings nm objdump readelf strip size iconv dos2unix unix2dos lsof ss netstat
 ping dig nslookup host getent locale localedef pidof nslookup cksum sha3sum crc32 mkfs wipefs fdisk parted blkdiscard dropdb createdb srm wipe`)

// helped are programs with data arguments, except for options that name a program: the letters of
// short options, and long options, which may be abbreviated. After an option with letters other
// than flags, -- may be its value.
var helped = map[string]struct{ short, long, flags string }{
	"sort": {"", "compress-program", "bcdfghiMmnRrsuVz"}, "split": {"", "filter", "deux"}, "install": {"", "strip-program", "bCcDdpsTv"}, "rg": {"", "pre hostname-bin", "FHILNPSachilnopqsuvwxz0"}, "zip": {"T", "unzip-command", "rqjmv9"},
	"tar":   {"IF", "use-compress-program checkpoint-action to-command info-script new-volume-script rsh-command rmt-command", "Jacjkmprtuvxz"},
	"rsync": {"e", "rsh rsync-path", "DHSabcghlnoprtuvxz"},
}

// wrapper is the grammar of a program that starts another: its options, the options with values,
// the number of operands before the command, and whether variable assignments may precede it.
type wrapper struct {
	flags, valued string // letters
	long, with    string // words without and with a value
	operands      int
	vars          bool
}

var wrappers = map[string]wrapper{
	"command": {flags: "p"},
	"builtin": {},
	"env":     {flags: "i0v", valued: "uC", long: "ignore-environment null debug", with: "unset chdir", vars: true},
	"nice":    {flags: "0123456789", valued: "n", with: "adjustment"},
	"nohup":   {},
	"setsid":  {flags: "cfw", long: "ctty fork wait"},
	"timeout": {flags: "v", valued: "ks", long: "foreground preserve-status verbose", with: "kill-after signal", operands: 1},
	"stdbuf":  {valued: "ioe", with: "input output error"},
	"time":    {flags: "pvaq", valued: "fo", long: "portability verbose append quiet", with: "format output"},
	"sudo":    {flags: "EHnSkP", valued: "ugpC", long: "preserve-env set-home non-interactive", with: "user group", vars: true},
	"ionice":  {flags: "t", valued: "cn", long: "ignore", with: "class classdata"},
	"xargs":   {flags: "0rtx", valued: "InPLsdEa", long: "null no-run-if-empty verbose exit max-lines", with: "max-args max-procs max-chars delimiter arg-file"},
	"exec":    {flags: "cl", valued: "a"},
}

// options parses the options of a wrapper. It returns the remaining words and the values of short
// options, or false if the grammar does not cover them.
func (g wrapper) options(words []word) (rest []word, given map[byte]word, ok bool) {
	given = map[byte]word{}
	for len(words) > 0 {
		w := words[0]
		switch {
		case !w.known && w.bound():
			return words, given, true
		case !w.known:
			return nil, given, false
		case w.text == "--":
			return words[1:], given, true
		case !strings.HasPrefix(w.text, "-"):
			return words, given, true
		}
		words = words[1:]
		takes := byte(0)
		if name, is := strings.CutPrefix(w.text, "--"); is {
			name, _, has := strings.Cut(name, "=")
			switch {
			case !has && set(g.long)[name]:
			case set(g.with)[name] && !has:
				takes = '-'
			case set(g.with)[name]:
			default:
				return nil, given, false
			}
		} else if takes, ok = g.cluster(w.text[1:], given); !ok {
			return nil, given, false
		}
		if takes == 0 {
			continue
		}
		if len(words) == 0 || !words[0].one {
			return nil, given, false
		}
		given[takes], words = words[0], words[1:]
	}
	return words, given, true
}

// cluster parses the short options in one word. It returns the one whose value is the next word.
func (g wrapper) cluster(letters string, given map[byte]word) (byte, bool) {
	if letters == "" {
		return 0, false
	}
	for i := range len(letters) {
		switch c := letters[i]; {
		case strings.IndexByte(g.flags, c) >= 0:
		case strings.IndexByte(g.valued, c) < 0:
			return 0, false
		case i+1 == len(letters):
			return c, true
		default:
			given[c] = word{text: letters[i+1:], known: true, one: true}
			return 0, true
		}
	}
	return 0, true
}

// wrapped adds the command that a wrapper starts.
func (s *starter) wrapped(g wrapper, words []word, fed bool) {
	name := path.Base(words[0].text)
	if name == "command" && len(words) > 1 && words[1].known && (words[1].text == "-v" || words[1].text == "-V") {
		return
	}
	rest, given, ok := g.options(words[1:])
	if !ok {
		s.unknown()
		return
	}
	for g.vars && len(rest) > 0 && strings.Contains(rest[0].text, "=") {
		if !rest[0].one {
			s.unknown()
		}
		name, text, _ := strings.Cut(rest[0].text, "=")
		v := anything
		if rest[0].known {
			v = textual(text)
		}
		s.sets(name, v, true)
		if rest[0].known {
			s.environment(text)
		} else if launches(name) {
			s.unknown()
		}
		rest = rest[1:]
	}
	for range g.operands {
		if len(rest) == 0 || !rest[0].one {
			s.unknown()
			return
		}
		rest = rest[1:]
	}
	if name == "exec" && len(words) > len(rest)+1 { // -l, or a name that starts with a hyphen
		s.login()
	}
	if name == "xargs" && len(rest) > 0 {
		rest = appended(rest, given)
	}
	s.command(rest, fed)
}

// appended returns the command of xargs: its words and those it reads.
func appended(words []word, given map[byte]word) []word {
	mark, replaces := given['I']
	if !replaces {
		return append(words[:len(words):len(words)], word{})
	}
	if !mark.known {
		return []word{{}}
	}
	return replaced(words, mark.text)
}

// replaced replaces a mark in words with unknown text.
func replaced(words []word, mark string) []word {
	out := make([]word, len(words))
	for i, w := range words {
		if before, _, has := strings.Cut(w.text, mark); has {
			w = word{text: before, one: w.one}
		}
		out[i] = w
	}
	return out
}

// find adds what the actions of find start. An unknown word among its arguments is either an
// action, followed by a literal program, or the program.
func (s *starter) find(words []word, fed bool) {
	loose := 0
	for i := 1; i < len(words) && !s.spent; i++ {
		w := words[i]
		switch {
		case !w.known && !s.bound(w):
			if loose++; loose > 1 || !w.one {
				s.unknown()
				return
			}
			s.tails(words[i+1:], fed)
		case w.known && set("-exec -execdir -ok -okdir")[w.text]:
			from := i + 1
			for i++; i < len(words) && !(words[i].known && (words[i].text == ";" || words[i].text == "+")); i++ {
			}
			s.ended(words[from:i], fed)
			s.command(replaced(words[from:i], "{}"), fed)
		}
	}
}

// ended handles a command of find whose end may be before the one that the text shows: an unknown word
// can be ; or +, and another one, or a word as it is, can begin the next command.
func (s *starter) ended(words []word, fed bool) {
	over := false
	for i, w := range words {
		switch {
		case s.spent:
			return
		case w.known && over && set("-exec -execdir -ok -okdir")[w.text]:
			s.command(replaced(words[i+1:], "{}"), fed)
		case w.known:
		case s.splits(w), over && !s.bound(w):
			s.unknown()
			return
		case !w.bound():
			over = true
		}
	}
}

// withHelp handles options that name a program, and words that may be such options.
func (s *starter) withHelp(words []word) {
	h := helped[path.Base(words[0].text)]
	for i, w := range words[1:] {
		if w.known && w.text == "--" && ends(words[:i+1], h.flags) {
			return
		}
		long := strings.HasPrefix(w.text, "--")
		name, _, has := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
		switch {
		case !w.known && i == 0 && path.Base(words[0].text) == "tar": // it may hold options
			s.unknown()
			return
		case !w.known && long && has && !abbreviates(name, h.long):
		case !w.known && s.bound(w):
		case !w.known, long && abbreviates(name, h.long),
			!long && strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, h.short),
			i == 0 && path.Base(words[0].text) == "tar" && !long && strings.ContainsAny(w.text, h.short):
			s.unknown()
			return
		}
	}
}

// ends reports whether -- after these words ends the options. It may also be the value of an
// option: tar -cf -- -I prog.
func ends(words []word, flags string) bool {
	w := words[len(words)-1]
	switch {
	case len(words) == 1:
		return true
	case !w.known:
		return false
	case strings.HasPrefix(w.text, "-"):
		return w.text != "-" && strings.Trim(w.text[1:], flags) == ""
	}
	first := words[1]
	if path.Base(words[0].text) != "tar" || strings.HasPrefix(first.text, "-") {
		return true
	}
	values := 0 // the first word of tar holds options too; their values follow it
	for _, c := range first.text {
		if !strings.ContainsRune(flags, c) {
			values++
		}
	}
	return first.known && len(words) > 1+values
}

func abbreviates(name, options string) bool {
	for o := range set(options) {
		if name != "" && strings.HasPrefix(o, name) {
			return true
		}
	}
	return false
}

// strict handles an unknown program. Any of its words may be a command, so each must be plain text,
// and its input must not come from the text.
func (s *starter) strict(words []word, fed bool) {
	if fed {
		s.unknown()
	}
	runs := set("zsh fish csh tcsh yash posh")[path.Base(words[0].text)] // shells with their own syntax
	var parts []string
	for _, w := range words[1:] {
		if runs {
			s.run[w.text] = true
			runs = strings.HasPrefix(w.text, "-") // the first operand is the script
		}
		glued := strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, " ") // -c"touch x"
		if !w.known || glued || strings.ContainsAny(w.text, "'\"\\$`*?[]{}~!\n;&|<>()") {
			s.unknown()
			return
		}
		if strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && len(w.text) > 2 { // -Sprogram
			parts = append(parts, w.text[2:])
		}
		parts = append(parts, strings.FieldsFunc(w.text, func(r rune) bool { return strings.ContainsRune(" \t=,:", r) })...)
	}
	s.tails(plain(parts), fed)
}

// tails adds the commands that could begin at any of these words.
func (s *starter) tails(words []word, fed bool) {
	for i, w := range words {
		if !s.spends(words[i:]) {
			return
		}
		if !w.known {
			continue
		}
		s.starts(texts(words[i:]))
		if strings.Contains(w.text, "/") {
			s.passed[w.text] = true
		}
		if base := path.Base(w.text); s.grammar(base) {
			s.command(words[i:], fed)
		}
	}
}
