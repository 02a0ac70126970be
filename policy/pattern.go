package policy

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// aliases maps tool names in skills and rules to canonical names. Other names
// are used as written. A script of a skill is a program that a shell could
// start, so patterns for Bash also apply to scripts.
var aliases = map[string][]string{
	"read":      {"read_file"},
	"write":     {"write_file"},
	"edit":      {"edit_file"},
	"multiedit": {"edit_file"},
	"grep":      {toolSearch},
	"glob":      {toolList},
	"ls":        {toolList},
	"bash":      {toolBash, toolScript},
	"webfetch":  {"web_fetch"},
	"websearch": {"web_search"},
}

const (
	toolBash     = "bash"
	toolScript   = "run_skill_script"
	toolSearch   = "search_files"
	toolList     = "list_files"
	toolDelegate = "delegate_task"
)

// Limits on patterns, so that a hostile one costs little.
const (
	patternMax  = 512     // bytes
	segmentsMax = 32      // parts of a path in a pattern
	wordsMax    = 64      // words of a command in a pattern
	itemsMax    = 256     // patterns of one list of a skill; more cover nothing
	compareMax  = 1 << 24 // pairs of a byte of a glob and a byte of a request that one list compares
)

// Pattern is one item of allowed-tools or one rule: `Tool` or `Tool(argument)`.
// The zero Pattern matches nothing.
//
// Tool is a canonical name, an alias that skills use (Read, Bash …), *, or a
// name that ends in *, such as mcp__server__*. The meaning of the argument
// depends on the facts of the call:
//
//	Bash(git:*)        a shell text whose every command starts with these words
//	Bash(npm run *)    the same; a * inside stands for part of one word
//	Bash(curl*)        one word; for rules that restrict, also more words after it
//	Bash(git status)   exactly these words
//	Read(src/**)       files below a folder of the workspace; /skills/… as shown
//	WebFetch(domain:*.example.com)
//	run_skill_script(pdf:scripts/*)
type Pattern struct{ Tool, Arg string }

// ParsePattern splits an item of allowed-tools. One that CheckPattern refuses
// matches nothing, since guessing would widen.
func ParsePattern(s string) Pattern {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}
	}
	return p
}

// CheckPattern returns an error for an invalid pattern of an operator,
// including patterns that can never match.
func CheckPattern(s string) error {
	_, err := parsePattern(s)
	return err
}

func parsePattern(s string) (Pattern, error) {
	s = strings.TrimSpace(s)
	name, rest, has := strings.Cut(s, "(")
	name = strings.TrimSpace(name)
	switch {
	case len(s) > patternMax:
		return Pattern{}, fmt.Errorf("it is longer than %d bytes", patternMax)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return Pattern{}, errors.New("it contains a control character or is not UTF-8")
	case name == "":
		return Pattern{}, errors.New("it names no tool")
	case strings.ContainsAny(name, " \t)") || strings.Contains(strings.TrimSuffix(name, "*"), "*"):
		return Pattern{}, fmt.Errorf("%q is not a tool name: use * alone or at the end", name)
	case !has:
		return Pattern{Tool: name}, nil
	}
	arg, ok := strings.CutSuffix(rest, ")")
	switch arg = strings.TrimSpace(arg); {
	case !ok:
		return Pattern{}, errors.New("its parenthesis is not closed")
	case arg == "" || arg == ":*":
		return Pattern{}, errors.New("its parentheses are empty: leave them out to match every use of the tool")
	case several(arg):
		return Pattern{}, errors.New(`it has more than one pattern: write a rule for each, or \) for a parenthesis in a name`)
	case strings.Count(arg, "/") >= segmentsMax:
		return Pattern{}, fmt.Errorf("its path has more than %d parts", segmentsMax)
	case len(strings.Fields(arg)) > wordsMax:
		return Pattern{}, fmt.Errorf("it has more than %d words", wordsMax)
	}
	for _, seg := range strings.FieldsFunc(arg, func(r rune) bool { return r == '/' || r == ' ' }) {
		if _, err := path.Match(seg, ""); err != nil {
			return Pattern{}, fmt.Errorf("%q is not a valid glob", seg)
		}
		if strings.Contains(seg, "[!") {
			return Pattern{}, fmt.Errorf("%q: write [^…] for all characters but these", seg)
		}
	}
	p := Pattern{Tool: name, Arg: arg}
	if err := p.unmatchable(); err != nil {
		return Pattern{}, err
	}
	return p, nil
}

// Matches reports whether the pattern covers the whole request.
func (p Pattern) Matches(r Request) bool { return covers([]Pattern{p}, r) }

// any reports whether the pattern is about every use of its tools.
func (p Pattern) any() bool { return p.Arg == "" || p.Arg == "*" }

// names reports whether the pattern is about a tool.
func (p Pattern) names(tool string) bool {
	if p.Tool == "" || tool == "" {
		return false
	}
	if stem, open := strings.CutSuffix(p.Tool, "*"); open {
		return strings.HasPrefix(tool, stem)
	}
	label, served := strings.CutPrefix(p.Tool, "mcp__") // labels have no "__"
	return p.Tool == tool || served && !strings.Contains(label, "__") && strings.HasPrefix(tool, p.Tool+"__") ||
		slices.Contains(aliases[strings.ToLower(p.Tool)], tool)
}

// covers reports whether the patterns together cover everything a request
// states: each command, path and host by one of them. What is opaque, and what takes
// too long to compare, is covered only by a pattern for every use of the tool.
func covers(list []Pattern, r Request) bool {
	about := make([]Pattern, 0, len(list))
	for _, p := range list {
		switch {
		case !p.names(r.Tool):
		case p.any():
			return true
		default:
			about = append(about, p)
		}
	}
	some := func(fits func(Pattern) bool) bool { return slices.ContainsFunc(about, fits) }
	switch {
	case comparisons(about, r) > compareMax:
		return false
	case r.Entry != "":
		return some(func(p Pattern) bool { return p.script(r, r.entries(), Pattern.command) })
	case r.Tool == toolBash || len(r.Commands) > 0 || r.Opaque:
		if r.Opaque || len(r.Commands) == 0 {
			return false
		}
		for _, c := range r.Commands {
			if slices.Contains(c, Dynamic) || !some(func(p Pattern) bool { return p.command(c) }) {
				return false
			}
		}
		return true
	}
	for _, u := range r.Paths {
		if !some(func(p Pattern) bool { return p.path(u.Path) }) {
			return false
		}
	}
	for _, h := range r.Hosts {
		if !some(func(p Pattern) bool { return p.host(h) }) {
			return false
		}
	}
	return len(r.Paths)+len(r.Hosts) > 0
}

// comparisons estimates how many pairs of bytes the globs of patterns and the words,
// paths, and entries of a request have.
func comparisons(list []Pattern, r Request) int {
	text, n := len(r.Entry)+len(r.file()), 0
	for _, u := range r.Paths {
		text += len(u.Path)
	}
	for _, p := range list {
		n += globLength(p.Arg) * text
		words, _ := p.words()
		for i, w := range words {
			glob := globLength(w)
			for _, c := range r.Commands {
				if glob > 0 && i < len(c) {
					n += glob * len(c[i])
				}
			}
		}
	}
	return n
}

// globLength is the length of a pattern that is more than text, or 0.
func globLength(pattern string) int {
	if !globs(pattern) {
		return 0
	}
	return len(pattern)
}

// servedAs are the tools with which a model does what the clients of an MCP server do by other requests.
var servedAs = map[string]string{"mcp_prompt": "load_skill", "mcp_resource": "read_skill_resource"}

// touches reports whether a pattern may match any part of a request, for rules
// that restrict. Parts that cannot be determined count as matched.
func (p Pattern) touches(r Request) bool {
	if !p.names(r.Tool) && !p.names(servedAs[r.Tool]) {
		return false
	}
	if p.any() {
		return true
	}
	switch {
	case r.Entry != "":
		entries := []string{r.Entry}
		if r.Skill != nil {
			entries = append(entries, r.Skill.ID+":"+r.file())
		}
		folded := func(e string) bool { return globMatch(strings.ToLower(p.Arg), strings.ToLower(e)) || p.entry(e) } // as skills are named
		return p.script(r, entries, Pattern.maybe) || slices.ContainsFunc(entries, folded) || p.Tool != toolScript && r.file() != "" &&
			slices.ContainsFunc(r.Programs, func(program string) bool { return p.maybe([]string{program, r.file()}) })
	case r.Tool == toolBash || len(r.Commands) > 0 || r.Opaque:
		started := r.started()
		return len(started) == 0 || slices.ContainsFunc(started, p.maybe)
	}
	if len(r.Paths)+len(r.Hosts) == 0 {
		return true
	}
	matches := func(name string) bool { return p.path(name) || loosely(inWorkspace(p.Arg), inWorkspace(name)) }
	if r.Tool == toolSearch || r.Tool == toolList { // what they find lies below the path
		exact := matches
		matches = func(name string) bool { return exact(name) || p.below(name) }
	}
	return slices.ContainsFunc(r.Paths, func(u PathUse) bool { return matches(u.Path) || slices.ContainsFunc(u.Names, matches) }) || slices.ContainsFunc(r.Hosts, p.host)
}

// below reports whether the pattern may match a path below a folder.
func (p Pattern) below(folder string) bool {
	folder = inWorkspace(folder)
	if folder == "." {
		return !strings.HasPrefix(p.Arg, "/") || strings.HasPrefix(p.Arg, "/workspace")
	}
	fixed := inWorkspace(p.Arg)
	if i := strings.IndexAny(fixed, `*?[\`); i >= 0 {
		if fixed = fixed[:i]; strings.HasPrefix(folder+"/", fixed) {
			return true
		}
	}
	return strings.HasPrefix(fixed, folder+"/")
}

// inWorkspace returns a path as it is below the workspace.
func inWorkspace(name string) string {
	if name == "/workspace" {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "/workspace/"), "./")
}

// script matches a pattern against a script: its entries, or the command lines
// by which a shell would start it, with unknown arguments.
func (p Pattern) script(r Request, entries []string, fits func(Pattern, []string) bool) bool {
	if slices.ContainsFunc(entries, func(e string) bool { return globMatch(p.Arg, e) }) {
		return true
	}
	file := r.file()
	if p.Tool == toolScript || file == "" {
		return false
	}
	lines := [][]string{{file}, {"./" + file}}
	if r.Runtime != "" {
		lines = append(lines, []string{r.Runtime, file})
	}
	return slices.ContainsFunc(lines, func(words []string) bool { return fits(p, words) })
}

// entry reports whether the pattern may mean a script, for rules that restrict. A star before
// :scripts/ is any text, as in rules for skills: names and IDs may contain slashes.
func (p Pattern) entry(e string) bool {
	const mark = ":scripts/"
	arg, e := strings.ToLower(p.Arg), strings.ToLower(e)
	i, j := strings.LastIndex(arg, mark), strings.LastIndex(e, mark)
	return i >= 0 && j >= 0 && MatchSkill(arg[:i], e[:j], "") &&
		(globMatch(arg[i+len(mark):], e[j+len(mark):]) || loosely(arg[i+len(mark):], e[j+len(mark):]))
}

var wildcards = regexp.MustCompile(`\\.|\[[^\]]*\]|[?*]+`)

// loosely matches a pattern that has ** inside a word, for rules that restrict: each of its wildcards
// is any text.
func loosely(pattern, text string) bool {
	inside := func(seg string) bool { return seg != "**" && strings.Contains(seg, "**") }
	return slices.ContainsFunc(strings.Split(pattern, "/"), inside) && starMatch(wildcards.ReplaceAllString(pattern, "*"), text)
}

// path matches a path that the model sees; the pattern may omit the workspace.
func (p Pattern) path(name string) bool {
	return globMatch(inWorkspace(p.Arg), inWorkspace(name))
}

// host matches `domain:NAME`.
func (p Pattern) host(h string) bool {
	name, ok := strings.CutPrefix(p.Arg, "domain:")
	return ok && hostCovered(strings.TrimSpace(name), h)
}

// words returns the words of a command pattern. open reports that more words
// may follow.
func (p Pattern) words() (words []string, open bool) {
	arg, open := strings.CutSuffix(p.Arg, ":*")
	words = strings.Fields(arg)
	if n := len(words); !open && n > 1 && words[n-1] == "*" {
		return words[:n-1], true
	}
	return words, open
}

// command matches one command: word by word, then the end or anything.
func (p Pattern) command(c []string) bool {
	words, open := p.words()
	if len(words) == 0 || len(c) < len(words) || len(c) > len(words) && !open {
		return false
	}
	for i, w := range words {
		if !wordMatch(w, c[i]) {
			return false
		}
	}
	return true
}

// maybe reports whether a command may match the pattern, including another path
// to the program or unknown words. More words may follow any star at the end, since
// other agents read Bash(curl*) as that.
func (p Pattern) maybe(c []string) bool {
	words, open := p.words()
	if len(c) == 0 || len(words) == 0 || c[0] == Dynamic {
		return true
	}
	for i, w := range words {
		switch {
		case i >= len(c):
			return false
		case c[i] == Dynamic:
			return true
		case wordMatch(w, c[i]) || loosely(w, c[i]) || i == 0 && (wordMatch(w, path.Base(c[i])) || wordMatch(path.Base(w), path.Base(c[i]))):
		case w != c[i] && strings.ContainsAny(w, "*?[") && slices.Contains(strings.Split(c[i], "/"), ".."): // leads anywhere
		default:
			return false
		}
	}
	return open || star(words[len(words)-1]) || len(c) == len(words) || slices.Contains(c, Dynamic)
}

// wordMatch matches one word; * does not pass a slash, ** does.
func wordMatch(pattern, word string) bool {
	if !globs(pattern) {
		return pattern == word
	}
	return globMatch(pattern, word)
}

// star reports whether a word ends in a star that stands for any text.
func star(word string) bool {
	stem, has := strings.CutSuffix(word, "*")
	return has && (len(stem)-len(strings.TrimRight(stem, `\`)))%2 == 0
}

func globs(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// globMatch matches slash paths; ** matches any number of segments, and no
// wildcard matches "..". Its run time is proportional to the length of name.
func globMatch(pattern, name string) bool {
	ps, ns := strings.Split(pattern, "/"), strings.Split(name, "/")
	if len(ps) > segmentsMax || len(pattern) > patternMax || slices.Contains(ns, "..") {
		return false
	}
	at := reach(ps, 1) // bit i: ps[:i] matches the segments so far
	for _, n := range ns {
		var next uint64
		for i, p := range ps {
			switch {
			case at&(1<<i) == 0:
			case p == "**":
				next |= 1 << i
			case segmentMatch(p, n):
				next |= 1 << (i + 1)
			}
		}
		if at = reach(ps, next); at == 0 {
			return false
		}
	}
	return at&(1<<len(ps)) != 0
}

// reach adds the positions that ** reaches without a segment.
func reach(ps []string, at uint64) uint64 {
	for i, p := range ps {
		if p == "**" && at&(1<<i) != 0 {
			at |= 1 << (i + 1)
		}
	}
	return at
}

func segmentMatch(pattern, segment string) bool {
	ok, err := path.Match(pattern, segment)
	return err == nil && ok
}
