package shell

import (
	"path"
	"regexp"
	"strings"
)

// programOptions lists the options of a program that name a program to start.
type programOptions struct {
	long   string         // long options, which git and wget accept abbreviated
	words  string         // beginnings of other words, and of the values of options
	short  string         // letters
	valued string         // letters of other options with a value, which end a word of letters
	inside *regexp.Regexp // what names one in any word
	set    string         // a letter and a long option whose values are searched for inside, so they must be known
}

// naming lists such options of the programs in own.
var naming = map[string]programOptions{
	"git":  {long: "upload-pack receive-pack exec extcmd access-hook", words: "ext::"},
	"wget": {long: "use-askpass", valued: "aoiBtOwTQPUlDARIXn", set: "e execute", inside: regexp.MustCompile("(?i)" + strings.Join(strings.Split("useaskpass", ""), "[-_]*"))},
	"dpkg": {long: "pre-invoke post-invoke status-logger"}, "npm": {long: "script-shell"},
	"apt": {long: "option", words: "-o"}, "apt-get": {long: "option", words: "-o"}, "apt-cache": {long: "option", words: "-o"},
	"make": {long: "eval", words: "SHELL="}, "gmake": {long: "eval", words: "SHELL="}, "ar": {long: "plugin"}, "java": {words: "-XX:On"},
	"go":  {long: "toolexec vettool exec", words: "-toolexec -vettool -exec"},
	"gcc": {words: "-wrapper -B -fplugin -specs"}, "g++": {words: "-wrapper -B -fplugin -specs"}, "cc": {words: "-wrapper -B -fplugin -specs"}, "c++": {words: "-wrapper -B -fplugin -specs"},
	"clang": {words: "-B -fplugin"}, "clang++": {words: "-B -fplugin"},
	"sqlite3": {words: ".sh .sy .on .ou .im .lo .ex .ww .rea", inside: regexp.MustCompile(`(?i)\b(edit|load_extension)\b["\x60\]]?(\s|/\*|--|\()|\A\.[\s'"]`)},
	"psql":    {words: `\! \o \g \copy \w |`, inside: regexp.MustCompile("`")},
	"pandoc":  {long: "filter lua-filter pdf-engine", short: "FL", valued: "frtwodMVABHDTc"},
}

// namesProgram reports whether an argument of a program names a program to start.
func namesProgram(words []word) bool {
	base := path.Base(words[0].text)
	l := naming[base]
	clones := false
	letter, option, _ := strings.Cut(l.set, " ")
	for i, w := range words[1:] {
		clones = clones || base == "git" && (w.text == "clone" || w.text == "init")
		name, value, _ := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
		long := strings.HasPrefix(w.text, "--")
		switch {
		case long && abbreviates(name, l.long), !long && l.lettered(w.text, l.short), l.inside != nil && (base == "sqlite3" && !w.known || l.inside.MatchString(w.text)):
			return true
		case long && abbreviates(name, option) || !long && l.lettered(w.text, letter):
			if !w.known || i+2 < len(words) && !words[i+2].known {
				return true
			}
		case clones && (strings.HasPrefix(w.text, "-u") || strings.HasPrefix(w.text, "-c") || long && abbreviates(name, "config template")):
			return true
		}
		if !long {
			value = strings.TrimLeft(w.text, "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") // -Xc'\! touch'
		}
		for begin := range set(l.words) {
			if strings.HasPrefix(w.text, begin) || strings.HasPrefix(w.text, "-") && strings.HasPrefix(value, begin) {
				return true
			}
		}
	}
	return false
}

// lettered reports whether a word of short options has one of these.
func (l programOptions) lettered(text, options string) bool {
	letters, is := strings.CutPrefix(text, "-")
	if i := strings.IndexAny(letters, options); is && i >= 0 {
		return !strings.ContainsAny(letters[:i], l.valued)
	}
	return false
}
