package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// aliases maps names that skills write in allowed-tools to ours. What is not
// here is taken as written.
var aliases = map[string][]string{
	"read":  {"read_file"},
	"write": {"write_file"},
	"edit":  {"edit_file"},
	"grep":  {"search_files"},
	"glob":  {"list_files"},
	"ls":    {"list_files"},
	"bash":  {"bash"},
}

// exempt are the tools by which skills themselves are used; allowed-tools
// never takes them away, or no skill could be left again.
var exempt = []string{"load_skill", "read_skill_resource", "search_skills", "list_skills"}

// Pattern is one item of allowed-tools: `Tool` or `Tool(argument)`.
type Pattern struct{ Tool, Arg string }

// ParsePattern splits an item of allowed-tools. An unclosed bracket gives a
// pattern that matches nothing, since guessing would widen.
func ParsePattern(s string) Pattern {
	name, rest, has := strings.Cut(strings.TrimSpace(s), "(")
	if !has {
		return Pattern{Tool: name}
	}
	arg, ok := strings.CutSuffix(rest, ")")
	if !ok {
		return Pattern{}
	}
	return Pattern{Tool: strings.TrimSpace(name), Arg: arg}
}

// Matches reports whether the pattern covers the whole request: with an
// argument, each path must match it as a glob. Command patterns match nothing
// here until commands are stated as facts.
func (p Pattern) Matches(r Request) bool {
	if p.Tool == "" {
		return false
	}
	if p.Tool != "*" && p.Tool != r.Tool && !slices.Contains(aliases[strings.ToLower(p.Tool)], r.Tool) {
		return false
	}
	if p.Arg == "" || p.Arg == "*" {
		return true
	}
	if len(r.Paths) == 0 {
		return false
	}
	for _, u := range r.Paths {
		if !globMatch(p.Arg, strings.TrimPrefix(u.Path, "/workspace/")) {
			return false
		}
	}
	return true
}

// globMatch matches slash paths; ** stands for any number of segments. Both
// are bounded so that a hostile pattern costs little.
func globMatch(pattern, name string) bool {
	ps, ns := strings.Split(pattern, "/"), strings.Split(name, "/")
	if len(ps) > 32 || len(ns) > 256 || len(pattern) > 512 {
		return false
	}
	return matchSegments(ps, ns, new(int))
}

func matchSegments(ps, ns []string, steps *int) bool {
	if *steps++; *steps > 10_000 {
		return false
	}
	if len(ps) == 0 {
		return len(ns) == 0
	}
	if ps[0] == "**" {
		for i := 0; i <= len(ns); i++ {
			if matchSegments(ps[1:], ns[i:], steps) {
				return true
			}
		}
		return false
	}
	if len(ns) == 0 {
		return false
	}
	ok, err := path.Match(ps[0], ns[0])
	return err == nil && ok && matchSegments(ps[1:], ns[1:], steps)
}

// excludedBy returns the name of the active skill whose list does not cover
// the request, under the merge rule; "" when all is covered.
func excludedBy(g *Grants, r Request) string {
	if r.Actor == ByOperator || slices.Contains(exempt, r.Tool) {
		return ""
	}
	var declaring []Subject
	for _, s := range r.Active {
		if s.Declared {
			declaring = append(declaring, s)
		}
	}
	if len(declaring) == 0 {
		return ""
	}
	if g.Merge == MergeLast {
		declaring = declaring[len(declaring)-1:]
	}
	missing := ""
	for _, s := range declaring {
		if covered(s, r) {
			if g.Merge == MergeUnion {
				return ""
			}
			continue
		}
		if missing == "" {
			missing = s.Name
		}
	}
	return missing
}

func covered(s Subject, r Request) bool {
	return slices.ContainsFunc(s.AllowedTools, func(item string) bool { return ParsePattern(item).Matches(r) })
}

func judgeNarrowing(g *Grants, r Request) (Decision, bool) {
	switch g.Narrow {
	case NarrowNarrow, NarrowEnforce, NarrowPreapprove:
	case NarrowIgnore, NarrowAdvise:
		return Decision{}, false
	default:
		return Decision{Outcome: Deny, Code: CodeInvalidCall, Rule: "allowed_tools", Reason: "unknown value of allowed_tools"}, true
	}
	name := excludedBy(g, r)
	if name == "" {
		return Decision{}, false
	}
	return Decision{Outcome: Deny, Code: CodeNotNarrowed, Rule: "allowed_tools=" + string(g.Narrow),
		Reason: fmt.Sprintf("the active skill %q does not list this use of %q in allowed-tools", name, r.Tool)}, true
}

func advice(g *Grants, r Request) (Decision, bool) {
	if g.Narrow != NarrowAdvise {
		return Decision{}, false
	}
	name := excludedBy(g, r)
	if name == "" {
		return Decision{}, false
	}
	return Decision{Outcome: Warn, Code: CodeNarrowAdvice, Rule: "allowed_tools=advise",
		Reason: fmt.Sprintf("the active skill %q does not list this use of %q in allowed-tools", name, r.Tool)}, true
}
