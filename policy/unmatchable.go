package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unmatchable returns the reason why an argument can never match a use of its tool,
// or "" if it may match.
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

// idleCommand: no program has a colon in its name, and a script has one.
func unmatchableCommand(arg string) error {
	words, _ := Pattern{Arg: arg}.words()
	if len(words) > 0 && strings.Contains(words[0], ":") && !strings.Contains(words[0], ":scripts/") && !strings.ContainsAny(words[0], "*?[") {
		return fmt.Errorf("no command is called %q: separate words with spaces, and put :* at the end", words[0])
	}
	return nil
}

// idleDomain: a host is called by ASCII letters, digits and hyphens.
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

// idlePath: the paths that patterns are held against are clean.
func unmatchablePath(arg string) error {
	if arg == "/" || arg == "/workspace" || arg == "." || arg == "./" {
		return nil
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
