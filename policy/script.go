package policy

import (
	"fmt"
	"slices"
	"strings"
)

// judgeScript checks the grant of a script, then the problems that the tool
// found with it. Problems checked before the allowlist are stated as Invalid,
// later ones as Broken.
func judgeScript(g *Grants, r Request) (Decision, bool) {
	deny := func(code, rule, reason string) (Decision, bool) {
		return Decision{Outcome: Deny, Code: code, Rule: rule, Reason: reason}, true
	}
	if r.Entry == "" && r.Tool != toolScript {
		return Decision{}, false
	}
	rule := "scripts=" + string(g.ScriptRule)
	switch g.ScriptRule {
	case ScriptsOff, "":
		return deny(CodeScriptsOff, "scripts=off", "scripts of skills may not run")
	case ScriptsExact:
		if !slices.ContainsFunc(g.Scripts, r.named) {
			return deny(CodeScriptUnlisted, rule, fmt.Sprintf("the operator did not allow the script %q", r.Entry))
		}
	case ScriptsTiered:
		if r.Skill == nil || !slices.ContainsFunc(r.Active, func(s Subject) bool { return s.ID == r.Skill.ID }) {
			return deny(CodeNotActivated, rule, "only scripts of active skills may run")
		}
	case ScriptsBundled:
	default:
		return deny(CodeInvalidCall, "scripts", "unknown value of scripts")
	}
	switch {
	case r.Broken != "":
		why := r.BrokenWhy
		if why == "" {
			why = "the script cannot run"
		}
		return Decision{Outcome: Deny, Code: r.Broken, Rule: "script", Reason: why, Fault: r.Fault}, true
	case r.Entry == "" || r.Skill == nil || r.Skill.Tree == "":
		return deny(CodeInvalidCall, "facts", "the call states no script, no skill or no tree of it")
	}
	switch g.Approval {
	case ApprovalAlways, ApprovalByTier, ApprovalNever, "":
		return Decision{}, false
	}
	return deny(CodeInvalidCall, "script_approval", "unknown value of script_approval")
}

// named reports whether an entry is the script of the request, by the name of
// its skill or by its unique ID.
func (r Request) named(entry string) bool {
	return slices.Contains(r.entries(), entry)
}

// entries returns the forms of a request's script: by the name of its skill and
// by its ID. Both may contain colons (ckm:brand, mcp:SERVER:NAME), so the file
// follows the name. An entry that could refer to two skills matches neither. A
// name with a colon counts only for a served skill, whose name the host assigns,
// or if the session found the name unambiguous. In that case the entry must
// split at its last ":scripts/". A file or ID that contains ":scripts/" has no
// entry by ID.
func (r Request) entries() []string {
	if r.Entry == "" || r.Skill == nil {
		return []string{r.Entry}
	}
	const mark = ":scripts/"
	s, out := r.Skill, []string{}
	if s.FromServer() || !strings.Contains(s.Name, ":") || s.Named && strings.LastIndex(r.Entry, mark) == len(s.Name) && !strings.Contains(s.Name, mark) {
		out = append(out, r.Entry)
	}
	if file := r.file(); file != "" && s.ID != "" && !strings.Contains(s.ID, mark) && strings.Count(":"+file, mark) < 2 {
		out = append(out, s.ID+":"+file)
	}
	return out
}

// file returns the path of the request's script in its skill, or "" if the entry
// does not use the skill's name.
func (r Request) file() string {
	if r.Skill != nil {
		if file, ok := strings.CutPrefix(r.Entry, r.Skill.Name+":"); ok {
			return file
		}
		return ""
	}
	_, file, _ := strings.Cut(r.Entry, ":")
	return file
}

// reach returns the network that a job may use without a question: no host, some
// hosts, or every public host. Other hosts are refused to third-party scripts
// and need an approval for other scripts.
func (g *Grants) reach() (hosts []string, every bool) {
	switch g.Network {
	case NetworkOn:
		return nil, true
	case NetworkTiered:
		return g.Hosts, false
	}
	return nil, false
}

// beyond are the hosts of a request that the operator did not grant. A network
// without hosts is every host.
func (g *Grants) beyond(r Request) []string {
	want := r.Hosts
	if len(want) == 0 && r.Network != "" {
		want = []string{"*"}
	}
	hosts, every := g.reach()
	var out []string
	for _, h := range want {
		if !every && !slices.ContainsFunc(hosts, func(grant string) bool { return hostCovered(grant, h) }) {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// judgeNetwork refuses networks that no answer can allow: all if the network is
// off, and for third-party scripts all hosts that the operator did not grant by
// name.
func judgeNetwork(g *Grants, r Request) (Decision, bool) {
	deny := func(rule, reason string) (Decision, bool) {
		return Decision{Outcome: Deny, Code: CodeNetworkDenied, Rule: rule, Reason: reason}, true
	}
	switch g.Network {
	case NetworkOff, NetworkTiered, NetworkOn, "":
	default:
		return Decision{Outcome: Deny, Code: CodeInvalidCall, Rule: "script_network", Reason: "unknown value of script_network"}, true
	}
	over := g.beyond(r)
	switch {
	case len(over) == 0:
	case g.Network != NetworkTiered:
		return deny("script_network=off", "there is no network")
	case r.Skill != nil && r.Skill.Tier.Or() == ThirdParty:
		return deny("script_network=tiered", "a skill of the tier third_party reaches only what the operator granted: "+strings.Join(over, ", "))
	}
	return Decision{}, false
}

// hostCovered reports whether a grant, a host or *.x, covers a host or a whole
// *.x. The star matches one or more labels.
func hostCovered(grant, host string) bool {
	grant, host = plainHost(grant), plainHost(host)
	if grant == "" || host == "" {
		return false
	}
	if tail, ok := strings.CutPrefix(grant, "*."); ok {
		return tail != "" && strings.HasSuffix(host, "."+tail) && len(host) > len(tail)+1
	}
	return grant == host
}

func plainHost(h string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(h)), ".")
}

// CheckScript returns an error for an invalid script name. The form is
// skill:scripts/path, with a relative, clean path and no wildcards.
func CheckScript(entry string) error {
	skill, file, ok := strings.Cut(entry, ":scripts/")
	bad := func(seg string) bool { return seg == "" || seg == "." || seg == ".." }
	switch {
	case !ok || strings.TrimSpace(skill) == "" || file == "":
		return fmt.Errorf("%q is not a script: write SKILL:scripts/PATH", entry)
	case strings.ContainsAny(entry, "\\\x00\n*?[") || slices.ContainsFunc(strings.Split(file, "/"), bad):
		return fmt.Errorf("%q is not a script: its path must be relative, clean, and exact", entry)
	}
	return nil
}

// CheckLevel returns an error for an invalid sandbox level.
func CheckLevel(l string) error {
	if len(l) == 2 && l[0] == 'L' && l[1] >= '0' && l[1] <= '3' {
		return nil
	}
	return fmt.Errorf("%q is not an isolation level: use L0, L1, L2, or L3", l)
}

// approvedBefore reports whether the operator approved exactly this script in
// exactly this tree, for a level that is not below the one approved.
func (g *Grants) approvedBefore(r Request) bool {
	return slices.ContainsFunc(g.Approved, func(a ApprovedScript) bool {
		return r.named(a.Entry) && a.Covers(r.Skill.Tree, r.Level)
	})
}

// confirmed reports whether scripts of a tier need an approval.
func (g *Grants) confirmed(t Tier) bool {
	switch g.Approval {
	case ApprovalNever:
		return false
	case ApprovalByTier:
		return t.Or() != Builtin && t.Or() != Org
	}
	return true
}
