package policy

import (
	"cmp"
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
// the skills that the model read or loaded, with all files, to the script, and to the isolation, but
// not to a command. The skills of a parent count for its subagents, whose
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
	var versions []Subject
	for _, s := range subjects {
		if s.FromServer() && (own == nil || r.Skill == nil || !s.Same(*r.Skill)) {
			versions = append(versions, s)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	slices.SortFunc(versions, func(a, b Subject) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Digest, b.Digest), strings.Compare(a.Tree, b.Tree))
	})
	return served(g, r, versions)
}

// served is the question about a program while versions of skills of servers count.
func served(g *Grants, r Request, versions []Subject) *need {
	n := &need{code: CodeServedAsk, kind: "served", scopes: []string{ScopeOnce, ScopeSession, ScopeAlways},
		binds: append([]string{r.Tool, r.Level, r.Network, fmt.Sprint(r.Host), fmt.Sprint(len(r.Hosts))}, r.Hosts...)}
	network, args := networkWords(r.Network), anyArgs
	if r.Host {
		network = allNetwork
	}
	files := ""
	if r.Entry != "" {
		n.binds = append(n.binds, r.Entry)
		if r.Skill != nil {
			files = r.Skill.Tree
			n.binds = append(n.binds, r.Skill.ID, files)
		}
		if g.BindArgs {
			n.binds, args = append(n.binds, r.Args), argsOfCall
		}
	}
	var names []string
	var of [][2]string
	for _, s := range versions {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		n.binds = append(n.binds, s.ID, s.Digest, s.Tree)
		of = append(of, labelled("skill", s.Name, "tree", s.Tree)...)
		if s.Tree == "" { // nothing proves what it is
			n.scopes, args = []string{ScopeOnce}, argsOfCall
			n.binds = append(n.binds, r.Call)
		}
	}
	n.text = fmt.Sprintf("%s runs on this machine while skills of MCP servers are active: %s; continue?", described(r), strings.Join(names, ", "))
	n.facts = append(labelled("tool", r.Tool, "script", r.Entry, "script tree", files, "sandbox", r.Level, "network", network), of...)
	n.facts = append(n.facts, labelled("arguments", args)...)
	return n
}
