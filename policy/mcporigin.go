package policy

import (
	"fmt"
	"slices"
	"strings"
)

// ServedPrefix is the prefix of the ID and the name of every skill of an MCP
// server, and of no other skill. The operator's label of the server follows.
const ServedPrefix = "mcp:"

// FromServer reports whether a skill came from such a server.
func (s Subject) FromServer() bool { return strings.HasPrefix(s.ID, ServedPrefix) }

// Same reports whether two subjects are the same skill and, for a skill of a server, the same
// version of it.
func (s Subject) Same(o Subject) bool {
	return s.ID == o.ID && (!s.FromServer() || s.Digest == o.Digest && s.Tree == o.Tree)
}

// VersionOf reports whether o is the same skill with the same files. If the digest of s is unknown,
// it is not compared.
func (s Subject) VersionOf(o Subject) bool {
	return s.ID == o.ID && s.Tree == o.Tree && (s.Digest == "" || s.Digest == o.Digest)
}

// servedNeed asks before a program runs on the host while a skill of a server is
// active: the skill's own script, or a command that its text may have requested
// (SEP-2640, no implicit local execution). Rules cannot answer it, because they
// do not cover the skill's content. An answer is bound to every version of
// the skills that the model read or loaded, with all files. The skills of a parent count for its subagents, whose
// tasks its model wrote. For skills without fixed content, it asks each time.
func servedNeed(g *Grants, r Request) *need {
	if r.Actor == ByOperator || r.Entry == "" && r.Tool != toolBash && len(r.Commands) == 0 {
		return nil
	}
	subjects := slices.Clone(r.Active)
	others := slices.Concat(r.Told, g.Inherited)
	if r.Skill != nil {
		others = append(others, *r.Skill)
	}
	for _, o := range others {
		if !slices.ContainsFunc(subjects, o.Same) {
			subjects = append(subjects, o)
		}
	}
	own := scriptNeed(g, r)
	var names, binds []string
	scopes := []string{ScopeOnce, ScopeSession, ScopeAlways}
	for _, s := range subjects {
		if !s.FromServer() || own != nil && r.Skill != nil && s.Same(*r.Skill) {
			continue
		}
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		binds = append(binds, s.ID, s.Digest, s.Tree)
		if s.Tree == "" {
			scopes = []string{ScopeOnce}
			binds = append(binds, r.Call)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &need{code: CodeServedAsk, kind: "served", scopes: scopes, binds: append([]string{r.Tool}, binds...),
		text:  fmt.Sprintf("%s runs on this machine while skills of MCP servers are active: %s; continue?", described(r), strings.Join(names, ", ")),
		facts: append(labelled("tool", r.Tool, "script", r.Entry), each("skill", names)...)}
}
