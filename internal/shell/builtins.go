package shell

import (
	"path"
	"slices"
	"strings"
)

// builtin adds what a shell builtin, or a program that runs a text, starts. It returns false for
// other names.
func (s *starter) builtin(name string, words []word, fed bool) bool {
	args := words[1:]
	known := !slices.ContainsFunc(args, func(w word) bool { return !w.known })
	understood := true
	switch name {
	case "sh", "bash", "dash", "rbash", "ash", "ksh", "mksh":
		s.shell(words, fed)
	case "eval":
		if understood = known; known {
			s.text(strings.Join(texts(args), " "), s.posix, fed)
		}
	case "source", ".":
		if len(args) > 0 && args[0].known && args[0].text == "--" {
			args = args[1:]
		}
		understood = len(args) > 0 && s.file(args[0])
	case "trap":
		if len(args) > 0 && args[0].known && args[0].text == "--" {
			args = args[1:]
		}
		understood = len(args) == 0 || args[0].known
		if understood && len(args) > 1 && !set("- -l -p")[args[0].text] {
			s.text(args[0].text, s.posix, true)
		}
	case "find":
		s.find(words, fed)
	case "awk", "gawk", "mawk":
		understood = awk(args)
	case "sed":
		understood = s.sed(args)
	case "set":
		understood = setOptions(args)
		s.exports = s.exports || slices.ContainsFunc(args, func(w word) bool {
			return w.text == "allexport" || strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "a")
		})
	case "shopt":
		understood = known && !slices.ContainsFunc(texts(args), func(o string) bool {
			return !set("-s -u -q -p nullglob globstar dotglob extglob nocaseglob failglob nocasematch lastpipe inherit_errexit")[o]
		})
	case "test", "[":
		understood = s.tests(args)
	case "printf":
		understood = s.prints(args)
	case "read", "mapfile", "readarray", "getopts", "unset", "wait":
		understood = known && s.names(name, texts(args))
	case "hash":
		understood = known && (len(args) == 0 || len(args) == 1 && args[0].text == "-r")
	case "jobs":
		understood = len(args) == 0 || len(args) == 1 && args[0].known && set("-l -p -r -s -n")[args[0].text]
	case "unalias":
	case "alias", "bind", "compgen", "complete", "compopt", "enable", "fc", "history":
		understood = false
	case "export", "declare", "typeset", "local", "readonly", "let": // after command or builtin
		understood = false
	default:
		return false
	}
	if !understood {
		s.unknown()
	}
	return true
}

// file records a script that is run. It reports whether the word certainly names a file.
func (s *starter) file(w word) bool {
	if !w.known { // part of it may be empty: bash "rm$x"
		return false
	}
	p := path.Clean(w.text)
	if strings.HasPrefix(p, "/dev/") || strings.HasPrefix(p, "/proc/") || w.text == "-" || strings.Contains(p, "..") && (strings.Contains(p, "dev/") || strings.Contains(p, "proc/")) {
		return false
	}
	if base := path.Base(p); base == "stdin" || digits(base) { // part of it may be empty: bash "rm$x"
		return false
	}
	s.run[w.text] = true
	s.starts([]string{w.text, Dynamic}) // a shell also searches PATH for it
	return true
}

// shell handles sh, bash, and compatible shells. With -c they run a text, otherwise a file or their
// input.
func (s *starter) shell(words []word, fed bool) {
	text := false
	args := words[1:]
	for len(args) > 0 {
		w := args[0]
		if !w.known && !w.bound() {
			s.unknown()
			return
		}
		if !w.known || !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+") {
			break
		}
		args = args[1:]
		if w.text == "--" {
			break
		}
		if strings.HasPrefix(w.text, "--") {
			if !set("--norc --noprofile --login")[w.text] {
				s.unknown()
				return
			}
			if w.text == "--login" {
				s.login()
			}
			continue
		}
		letters := w.text[1:]
		if letters == "" || w.text[0] == '+' && strings.Contains(letters, "c") || strings.Trim(letters, "ceuxfnvbhlaCBo") != "" {
			s.unknown()
			return
		}
		if strings.Contains(letters, "l") {
			s.login()
		}
		text = text || strings.Contains(letters, "c")
		for range strings.Count(letters, "o") {
			if len(args) == 0 || !args[0].known || !modes[args[0].text] {
				s.unknown()
				return
			}
			args = args[1:]
		}
	}
	switch {
	case len(args) == 0:
		s.unknown() // reads its input
	case text && args[0].known:
		s.text(args[0].text, path.Base(words[0].text) != "bash", fed)
	case text || !s.file(args[0]):
		s.unknown()
	}
}

// login adds the files in the home folder that a login shell runs.
func (s *starter) login() {
	for _, name := range []string{".profile", ".bash_profile", ".bash_login", ".bash_logout"} {
		s.run[name] = true
	}
}

// modes are the options of set -o that do not change what a text starts.
var modes = set("pipefail errexit nounset xtrace noglob noclobber verbose errtrace functrace allexport noexec braceexpand hashall nolog notify")

// setOptions reports whether set leaves unchanged what a text starts.
func setOptions(args []word) bool {
	for i := 0; i < len(args); i++ {
		w := args[i]
		if !w.known {
			return w.bound()
		}
		if w.text == "--" || w.text == "-" || w.text == "" || w.text[0] != '-' && w.text[0] != '+' {
			return true
		}
		if strings.Trim(w.text[1:], "euxfnvCabBETo") != "" {
			return false
		}
		for range strings.Count(w.text, "o") {
			if i++; i >= len(args) {
				break // prints the options
			}
			if !args[i].known || !modes[args[i].text] {
				return false
			}
		}
	}
	return true
}

var binary = set("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")

// unary reports whether an operator of test has one operand, which follows. An operand or an operator
// follows -a and -o.
func unary(text string) bool {
	return len(text) == 2 && text[0] == '-' && text[1] != 'a' && text[1] != 'o'
}

// tests reports whether test evaluates none of its words: -v and -R take a name, which may have a
// subscript.
func (s *starter) tests(args []word) bool {
	for i, w := range args {
		before, after := word{}, word{}
		if i > 0 {
			before = args[i-1]
		}
		if i+1 < len(args) {
			after = args[i+1]
		}
		switch {
		case w.known && (w.text == "-v" || w.text == "-R"):
			if !after.known || !identifier(after.text) && after.text != "]" {
				return false
			}
		case w.known, w.one && w.num:
		case s.bound(w):
		case !w.one || !(before.known && (binary[before.text] || unary(before.text))) && !(after.known && binary[after.text]):
			return false
		}
	}
	return true
}

// prints reports whether printf only prints: -v and %n take a name.
func (s *starter) prints(args []word) bool {
	for len(args) > 0 && args[0].known && strings.HasPrefix(args[0].text, "-v") { // may be repeated
		if args[0].text != "-v" || len(args) < 2 || !args[1].known {
			return false
		}
		s.sets(args[1].text, anything, false)
		args = args[2:]
	}
	if len(args) > 0 && args[0].known && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return true
	}
	if !args[0].known && !args[0].bound() {
		return false
	}
	for i := 0; i < len(args[0].text); i++ { // %n, with anything in between
		if args[0].text[i] == '%' {
			rest := strings.TrimLeft(args[0].text[i+1:], "0123456789.-+# '*hlLjztq")
			if strings.HasPrefix(rest, "n") {
				return false
			}
		}
	}
	return args[0].known || !strings.Contains(args[0].text, "%")
}

// names reports whether the arguments of a builtin are only names of variables, and records them.
func (s *starter) names(builtin string, args []string) bool {
	valued := map[string]string{"read": "adinNptu", "mapfile": "dnsu", "readarray": "dnsu", "getopts": "", "unset": "", "wait": "p"}[builtin]
	flags := map[string]string{"read": "ers", "mapfile": "t", "readarray": "t", "unset": "fv", "wait": "nf"}[builtin]
	if builtin == "getopts" {
		s.sets("OPTARG", anything, false)
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) < 2 || strings.HasPrefix(args[0], "-") {
			return false
		}
		s.sets(args[1], anything, false)
		return true
	}
	var names []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" || a == "--" {
			if a == "--" {
				i++
			}
			names = append(names, args[min(i, len(args)):]...)
			break
		}
		for j := 1; j < len(a); j++ {
			if strings.IndexByte(flags, a[j]) >= 0 {
				continue
			}
			if strings.IndexByte(valued, a[j]) < 0 {
				return false
			}
			given := a[j+1:]
			if given == "" {
				if i++; i >= len(args) {
					return false
				}
				given = args[i]
			}
			if builtin == "read" && a[j] == 'a' || builtin == "wait" && a[j] == 'p' {
				names = append(names, given)
			}
			break
		}
	}
	for _, n := range names {
		switch {
		case builtin == "wait" && (digits(n) || strings.HasPrefix(n, "%") && identifier("a"+n[1:])):
		case builtin == "unset" && !identifier(n):
			name, index, _ := strings.Cut(strings.TrimSuffix(n, "]"), "[")
			if !identifier(name) || !digits(index) {
				return false
			}
		case builtin == "unset" && !special(n):
		default:
			s.sets(n, anything, false)
			s.arrays[n] = s.arrays[n] || builtin != "unset" // for read -a and mapfile
		}
	}
	return true
}
