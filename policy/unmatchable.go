package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// unmatchable returns the reason why an argument can never match a use of its tool,
// or nil if it may match.
func (p Pattern) unmatchable() error {
	is := func(tools ...string) bool { return slices.ContainsFunc(tools, p.names) }
	switch {
	case p.any() || strings.HasSuffix(p.Tool, "*"):
	case is(toolBash):
		return unmatchableCommand(p.Arg)
	case is(toolScript):
		if first, _, _ := strings.Cut(p.Arg, "/"); !strings.ContainsAny(first, ":*?[") {
			return errors.New("it names no skill: write SKILL:scripts/PATH, or *:scripts/PATH for that of every skill")
		}
		if skill, file, named := strings.Cut(p.Arg, ":"); named && !strings.Contains(p.Arg, "/") {
			return fmt.Errorf("no script is called %q: write %s:scripts/** for all scripts of the skill", file, skill)
		}
	case is("web_fetch", "web_search"):
		name, ok := strings.CutPrefix(p.Arg, "domain:")
		if !ok {
			return errors.New("hosts are written as domain:example.com")
		}
		return unmatchableDomain(name)
	case is("read_file", "write_file", "edit_file", "search_files", "list_files"):
		return unmatchablePath(p.Arg)
	}
	return nil
}

// Parts of arguments that other programs read in another way.
var (
	quotes  = regexp.MustCompile(`(^|[ \t=])("[^"]*"|'[^']*')($|[ \t:])`)
	braces  = regexp.MustCompile(`(^|[^\\])\{[^{}]*,[^{}]*\}`)
	commaed = regexp.MustCompile(`\*\*[,;| ]`)
)

var errBraces = errors.New(`braces are not expanded: write a rule for each, or \{ for a brace in a name`)

// several reports whether an argument ends in a parenthesis, and another one begins.
func several(arg string) bool {
	open := 0
	for i := 0; i < len(arg); i++ {
		switch arg[i] {
		case '\\':
			i++
		case '(':
			open++
		case ')':
			if open--; open < 0 {
				return strings.Contains(arg[i:], "(")
			}
		}
	}
	return false
}

// unmatchableCommand returns an error for a command with a colon or a list in its name, or with
// quotes.
func unmatchableCommand(arg string) error {
	words, _ := Pattern{Arg: arg}.words()
	if len(words) == 0 {
		return nil
	}
	switch first := words[0]; {
	case quotes.MatchString(arg):
		return errors.New(`words are compared without quotes: leave them out, write ? for a space in a word, or \" for a quote`)
	case braces.MatchString(first):
		return errBraces
	case strings.Contains(first, ":*") && !strings.Contains(first, "/"):
		return fmt.Errorf("no command is called %q: :* is only for the end", first)
	case strings.Contains(first, ":") && !strings.Contains(first, ":scripts/") && !strings.ContainsAny(first, "*?["):
		return fmt.Errorf("no command is called %q: separate words with spaces, and put :* at the end", first)
	}
	return nil
}

// unmatchableDomain returns an error unless a host name consists of ASCII letters, digits, and
// hyphens.
func unmatchableDomain(domain string) error {
	name := strings.TrimPrefix(plainHost(domain), "*.")
	for _, label := range strings.Split(name, ".") {
		bad := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") || strings.ContainsFunc(label, bad) {
			return fmt.Errorf("%q is not a host: write domain:example.com or domain:*.example.com; write other letters as xn--", domain)
		}
	}
	return nil
}

// unmatchablePath returns an error for a path that is not clean: patterns are matched against clean
// paths.
func unmatchablePath(arg string) error {
	if arg == "/" || arg == "/workspace" || arg == "." || arg == "./" {
		return nil
	}
	switch {
	case len(arg) > 1 && (arg[0] == '"' || arg[0] == '\'') && arg[len(arg)-1] == arg[0]:
		return fmt.Errorf("the quotes are part of the path: write %s", arg[1:len(arg)-1])
	case braces.MatchString(arg):
		return errBraces
	case commaed.MatchString(arg):
		return fmt.Errorf("%q is more than one path: write a rule for each", arg)
	}
	segments := strings.Split(strings.TrimPrefix(strings.TrimPrefix(arg, "/"), "./"), "/")
	for i, s := range segments {
		switch {
		case s == "" && i > 0 && i == len(segments)-1:
			return fmt.Errorf("paths never end with a slash; for everything in the folder, write %s**", arg)
		case s == "", s == ".", s == "..", i == 0 && s == "~":
			return fmt.Errorf("%q is not a usable path: write it without . and .., relative to the workspace or absolute", arg)
		}
	}
	return nil
}
