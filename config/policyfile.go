package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier"
	"metier/internal/egress"
	"metier/internal/namedfile"
	"metier/internal/nearest"
	"metier/internal/yaml"
	"metier/policy"
	"metier/settings"
	"metier/signature"
)

// Policy is a policy file: grants, rules, approvals, and trust in sources and signers of skills.
type Policy struct {
	Tools     []string // canonical names, exact
	Scripts   []string // exact skill:scripts/path
	Hosts     []string
	Rules     []policy.Rule
	Skills    []policy.SkillRule
	Approvals []policy.ApprovedScript
	BindArgs  bool
	Trust     signature.Trust // sources, signers, and approved skills
	// SigstoreRoots are files with the keys of Sigstore instances.
	SigstoreRoots []string
}

// policyVersion is the one version of the file that there is.
const policyVersion = "1"

// approvedLevel is the weakest sandbox an approval in a file holds for, unless
// it says another.
const approvedLevel = "L2"

// policyItems bounds each list of a policy file; policyFaults how many faults
// of one file are named.
const (
	policyItems  = 1000
	policyFaults = 20
)

// ReadPolicy reads a policy file. It is strict, so that a broken file never means
// fewer rules: anything unknown in it fails with line and column, and so does a
// file that is empty or missing. Rules can be about the given custom tools.
func ReadPolicy(path string, custom ...string) (Policy, error) {
	b, err := namedfile.Read(path, maxFile)
	if err != nil {
		return Policy{}, metier.Errorf(metier.Invalid, "policy_file_unreadable", "specify a readable policy file", "read the policy file %s: %w", path, err)
	}
	f, err := parsePolicyFile(b, custom)
	if err != nil {
		return Policy{}, metier.Errorf(metier.Invalid, "policy_file_invalid", "fix the lines shown in the message (docs/POLICY.md); nothing runs until they are fixed", "the policy file %s: %w", path, err)
	}
	for i, root := range f.SigstoreRoots {
		if !filepath.IsAbs(root) {
			f.SigstoreRoots[i] = filepath.Join(filepath.Dir(path), root)
		}
	}
	return f, nil
}

// Grant adds what the file says to grants. Lists grow, and nothing that the
// grants refuse is lifted: Denied is left alone, and a rule that denies stays
// beside one that allows.
func (f Policy) Grant(g *policy.Grants) {
	add := func(to *[]string, more []string) {
		for _, s := range more {
			if !slices.Contains(*to, s) {
				*to = append(slices.Clip(*to), s)
			}
		}
	}
	add(&g.Tools, f.Tools)
	add(&g.Scripts, f.Scripts)
	add(&g.Hosts, f.Hosts)
	g.Rules = slices.Concat(g.Rules, f.Rules)
	g.Skills = policy.AddSkills(g.Skills, f.Skills)
	g.Approved = slices.Concat(g.Approved, f.Approvals)
	g.BindArgs = g.BindArgs || f.BindArgs
}

func parsePolicyFile(src []byte, custom []string) (Policy, error) {
	n, err := yaml.Parse(src, &yaml.Options{MaxBytes: maxFile, MaxNodes: 8 * 5 * policyItems})
	if err != nil {
		return Policy{}, err
	}
	r := policyReader{custom: custom}
	r.file(n)
	return r.out, errors.Join(r.faults...)
}

// policyReader walks a policy file and collects what is wrong with it.
type policyReader struct {
	out    Policy
	custom []string // names of custom tools
	faults []error
}

func (r *policyReader) fault(n *yaml.Node, format string, a ...any) {
	if len(r.faults) < policyFaults {
		r.faults = append(r.faults, &yaml.Error{Line: n.Line, Column: n.Column, Code: yaml.WrongType, Msg: fmt.Sprintf(format, a...)})
	}
}

func (r *policyReader) file(n *yaml.Node) {
	if n.Kind != yaml.Map || len(n.Entries) == 0 {
		r.fault(n, "a policy file is a map that starts with version: %s; an empty one is refused", policyVersion)
		return
	}
	readers := map[string]func(*yaml.Node){
		"version": func(v *yaml.Node) {
			if v.Kind != yaml.Scalar || v.Text != policyVersion {
				r.fault(v, "this release supports only version %s of policy files", policyVersion)
			}
		},
		"tools":           func(v *yaml.Node) { r.out.Tools = r.texts("tools", v, r.checkTool) },
		"scripts":         func(v *yaml.Node) { r.out.Scripts = r.texts("scripts", v, policy.CheckScript) },
		"hosts":           func(v *yaml.Node) { r.out.Hosts = r.texts("hosts", v, egress.CheckHost) },
		"rules":           r.rules,
		"skills":          r.skills,
		"approvals":       r.approvals,
		"sources":         func(v *yaml.Node) { r.out.Trust.Sources = r.texts("sources", v, signature.CheckSource) },
		"signers":         r.signers,
		"approved_skills": r.approvedSkills,
		"sigstore_roots": func(v *yaml.Node) {
			r.out.SigstoreRoots = r.texts("sigstore_roots", v, func(string) error { return nil })
		},
		"approvals_bind_arguments": func(v *yaml.Node) {
			var ok bool
			if r.out.BindArgs, ok = v.Bool(); !ok {
				r.fault(v, "approvals_bind_arguments is true or false")
			}
		},
	}
	seen := r.entries("a policy file", n, readers)
	if !seen["version"] {
		r.fault(n, "the version is missing: start with version: %s", policyVersion)
	}
}

// entries gives each value of a map to the reader of its key, and refuses a key
// without one.
func (r *policyReader) entries(of string, n *yaml.Node, readers map[string]func(*yaml.Node)) map[string]bool {
	seen := map[string]bool{}
	for _, e := range n.Entries {
		read, ok := readers[e.Key.Text]
		if !ok {
			var known []string
			for k := range readers {
				known = append(known, k)
			}
			slices.Sort(known)
			r.fault(e.Key, "unknown key %q in %s%s (the keys are %s)", short(e.Key.Text), of, nearest.Hint(e.Key.Text, known), strings.Join(known, ", "))
			continue
		}
		seen[e.Key.Text] = true
		read(e.Value)
	}
	return seen
}

// list is the items of a list, or nothing and a fault.
func (r *policyReader) list(key string, n *yaml.Node) []*yaml.Node {
	switch {
	case n.Kind != yaml.List:
		r.fault(n, "%s is a list; omit the key if it is empty", key)
	case len(n.Items) > policyItems:
		r.fault(n, "%s has %d items; at most %d are read", key, len(n.Items), policyItems)
	default:
		return n.Items
	}
	return nil
}

// text is a scalar that says something, or a fault.
func (r *policyReader) text(of string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.Scalar || n.Null() || n.Text == "" {
		r.fault(n, "%s is a text", of)
		return "", false
	}
	return n.Text, true
}

func (r *policyReader) texts(key string, n *yaml.Node, check func(string) error) []string {
	var out []string
	for _, item := range r.list(key, n) {
		s, ok := r.text("an item of "+key, item)
		if !ok {
			continue
		}
		if err := check(s); err != nil {
			r.fault(item, "%v", err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// rules reads `- deny: PATTERN`, `- ask: PATTERN` and `- allow: PATTERN`, each
// with `skill: NAME` or without.
func (r *policyReader) rules(n *yaml.Node) {
	for _, item := range r.list("rules", n) {
		var u policy.Rule
		effect, ok := r.effect("a rule", item, &u.Pattern, map[string]func(*yaml.Node){"skill": func(v *yaml.Node) { u.Skill, _ = r.text("skill", v) }})
		u.Effect = effect
		if !ok {
			continue
		}
		err := u.Check()
		if err == nil {
			err = checkRuleTool(u, r.custom)
		}
		if err != nil {
			r.fault(item, "rule %q: %v", short(u.String()), err)
			continue
		}
		r.out.Rules = append(r.out.Rules, u)
	}
}

// skills reads `- deny: NAME`, `- ask: NAME` and `- allow: NAME`.
func (r *policyReader) skills(n *yaml.Node) {
	for _, item := range r.list("skills", n) {
		var u policy.SkillRule
		effect, ok := r.effect("a rule of skills", item, &u.Skill, map[string]func(*yaml.Node){})
		u.Effect = effect
		if !ok {
			continue
		}
		if err := u.Check(); err != nil {
			r.fault(item, "rule %q: %v", short(u.Skill), err)
			continue
		}
		r.out.Skills = append(r.out.Skills, u)
	}
}

// effect reads an item that has exactly one of deny, ask and allow, beside the
// keys of more.
func (r *policyReader) effect(of string, n *yaml.Node, text *string, more map[string]func(*yaml.Node)) (found policy.RuleEffect, ok bool) {
	if n.Kind != yaml.Map {
		r.fault(n, "%s is deny, ask or allow with a text, such as: - deny: TEXT", of)
		return "", false
	}
	before, count := len(r.faults), 0
	for _, e := range []policy.RuleEffect{policy.RuleDeny, policy.RuleAsk, policy.RuleAllow} {
		more[string(e)] = func(v *yaml.Node) {
			count++
			found = e
			*text, _ = r.text(string(e), v)
		}
	}
	r.entries(of, n, more)
	if count != 1 && len(r.faults) == before {
		r.fault(n, "%s has exactly one of deny, ask and allow", of)
	}
	return found, len(r.faults) == before
}

var treeDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// approvals reads scripts that are approved as they are: an entry, its tree and
// the weakest sandbox it may have.
func (r *policyReader) approvals(n *yaml.Node) {
	for _, item := range r.list("approvals", n) {
		if item.Kind != yaml.Map {
			r.fault(item, "an approval has the keys script, tree and, where it is not %s, level", approvedLevel)
			continue
		}
		before := len(r.faults)
		a := policy.ApprovedScript{Level: approvedLevel}
		checked := func(into *string, key string, check func(string) error) func(*yaml.Node) {
			return func(v *yaml.Node) {
				s, ok := r.text(key, v)
				if !ok {
					return
				}
				if err := check(s); err != nil {
					r.fault(v, "%v", err)
				}
				*into = s
			}
		}
		seen := r.entries("an approval", item, map[string]func(*yaml.Node){
			"script": checked(&a.Entry, "script", policy.CheckScript),
			"tree": checked(&a.Tree, "tree", func(s string) error {
				if !treeDigest.MatchString(s) {
					return fmt.Errorf("%q is not the digest of a tree, which is sha256: and 64 digits; metier show prints it", short(s))
				}
				return nil
			}),
			"level": checked(&a.Level, "level", policy.CheckLevel),
		})
		for _, key := range []string{"script", "tree"} {
			if !seen[key] {
				r.fault(item, "the approval has no %s: it holds for one script in one tree", key)
			}
		}
		if len(r.faults) == before {
			r.out.Approvals = append(r.out.Approvals, a)
		}
	}
}

// ruleTools are the names that rules may be about: the tools there are, those of
// a later version, and the names that skills use.
func ruleTools() []string { return append(ToolNames(), "web_search") }

// checkRuleTool refuses a rule about a tool that does not exist, because it could
// never match. Tools of MCP servers are unknown here.
func checkRuleTool(u policy.Rule, custom []string) error {
	tools := append(ruleTools(), custom...)
	p := policy.ParsePattern(u.Pattern)
	about := policy.Pattern{Tool: p.Tool}
	if strings.HasPrefix(p.Tool, "mcp__") || slices.ContainsFunc(tools, func(t string) bool { return about.Matches(policy.Request{Tool: t}) }) {
		return nil
	}
	if stem, open := strings.CutSuffix(p.Tool, "*"); open && strings.HasPrefix("mcp__", stem) {
		return nil
	}
	names := append(tools, "Read", "Write", "Edit", "MultiEdit", "Grep", "Glob", "LS", "Bash", "WebFetch", "WebSearch")
	return noTool(p.Tool, names, "")
}

// checkTool checks the name of a granted tool: a grant is exact. Tools of MCP servers are unknown
// here.
func (r *policyReader) checkTool(s string) error {
	if strings.ContainsAny(s, "*()") {
		return fmt.Errorf("%q is not a tool name: a grant names one tool; use patterns in rules", short(s))
	}
	if err := policy.CheckPattern(s); err != nil {
		return err
	}
	names := append(ruleTools(), r.custom...)
	if strings.HasPrefix(s, "mcp__") || slices.Contains(names, s) {
		return nil
	}
	return noTool(s, names, "; tools: "+strings.Join(names, ", "))
}

// noTool is the error for a tool that does not exist. Policy files apply to all profiles, so they use
// canonical names, and the error has that of a tool that a profile calls so.
func noTool(name string, names []string, all string) error {
	for _, p := range settings.Profiles() {
		l, _ := settings.Profile(p)
		s, _, err := settings.Resolve(l)
		if c := s.Tools.Canonical(name); err == nil && c != name {
			return fmt.Errorf("policy files use canonical names: write %s instead of %s, its name in the profile %s", c, name, p)
		}
	}
	return fmt.Errorf("there is no tool %q%s%s", short(name), nearest.Hint(name, names), all)
}

// short keeps the text of a file in messages short.
func short(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
