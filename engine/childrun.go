package engine

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/model/provider"
	"metier/policy"
)

// prepare returns the run of a child: it has its parent's workspace and its profile's grants.
func (c *children) prepare(ctx context.Context, ch subagent.Child) (*Run, error) {
	parent, p := c.parent, ch.Profile
	l := parent.launch
	tokens, err := parent.tokensFor(ctx, ch)
	if err != nil {
		return nil, err
	}
	snapshot, err := parent.session.Snapshot().Asked(ctx, parent.session)
	if err != nil {
		return nil, err
	}
	subs := *l.Subagents
	subs.At++
	l.Subagents, l.MCP, l.resumed, l.browserRenewed = &subs, nil, false, false
	l.Tools, l.Named = childTools(p, parent.launch.Tools, subs.At < subs.Depth), nil
	l.Skills, l.Scripts = ch.Manifest.Skills, slices.Clone(p.Scripts) // only these run, so approvals of others allow nothing
	l.Prompt, l.PromptRole, l.Phase, l.Later, l.Park = ch.Task, policy.Context, "", nil, true
	l.Spec = agent.Spec{Mode: parent.launch.Spec.Mode, MaxTurns: p.MaxTurns, MaxTokens: tokens, Output: ch.Output, Price: parent.launch.Spec.Price}
	k := &Run{e: parent.e, op: parent.op, settings: parent.settings, origins: parent.origins, snapshot: snapshot, model: parent.model, custom: Custom{Mounts: parent.custom.Mounts, Sandbox: parent.custom.Sandbox}, view: parent.view, family: parent.family,
		protected: parent.protected, links: parent.links, workspace: parent.workspace, host: parent.host, anyLevel: parent.anyLevel, sandbox: parent.sandbox, limits: parent.limits, hooks: parent.hooks, secrets: parent.secrets, issued: parent.issued, trusted: parent.trusted}
	k.notices = &notices{to: parent.notices.deliver}
	k.hooks.Notify = k.notices.add
	if k.disk = parent.disk; parent.reloads() {
		k.disk = k.snapshot
	}
	k.limited.MaxTokens = tokens
	l.Hosts = k.narrow(p, parent.launch.Hosts)
	if p.Model != "" && p.Model != parent.model.ID {
		if k.model, err = provider.Open(p.Model, parent.op.Models(parent.e.Env)); err != nil {
			return nil, err
		}
		l.Spec.Price = parent.op.Price(k.model.ID)
	}
	l.Model, l.Spec.Model = cmp.Or(p.Model, l.Model), k.model.ID
	m := ch.Manifest
	m.Parent, m.Depth, m.Tools = parent.folder.ID(), subs.At, l.Tools
	if m.Scripts == nil {
		m.Scripts = []string{}
	}
	k.launch = l
	k.launch.Child = nil // what may be there is judged by what all runs of the operator's may use
	l.Skills, m.Missing = k.there(l.Skills)
	m.Skills = l.Skills
	for _, n := range m.Missing {
		if err := k.unrestricted(p, n); err != nil {
			return nil, err
		}
	}
	l.Child = &LaunchChild{Manifest: m, Chain: append(slices.Clone(parent.launch.chain()), ch.ID), Only: k.only(p, l.Skills, parent.launch.Child), Instructions: p.Instructions, Inherited: parent.inherited(), Browser: p.Browser}
	l.Spec.Subagent = &m
	k.launch = l
	if err := k.trust(ctx); err != nil {
		return nil, err
	}
	if !l.runs() {
		return k, nil
	}
	if k.sandbox == nil {
		if err := k.openSandbox(); err != nil {
			return nil, err
		}
	}
	k.exact, err = k.onHost()
	return k, err
}

// inherited returns the skills that are active in the run and its parents, or whose instructions a
// model read. What their text requested may be in the task of a subagent.
func (r *Run) inherited() (out []policy.Subject) {
	if r.launch.Child != nil {
		out = slices.Clone(r.launch.Child.Inherited)
	}
	st := r.session.State()
	var seen []policy.Subject
	for _, a := range st.Active {
		seen = append(seen, a.Subject())
	}
	for _, s := range append(seen, st.Told...) {
		if !slices.ContainsFunc(out, s.Same) {
			out = append(out, s)
		}
	}
	return out
}

// narrow removes from the settings of a child what its profile does not grant. Scripts are exactly
// those it names, and hosts those it names or inherits.
func (r *Run) narrow(p subagent.Profile, parent []string) []string {
	hosts, inherits := profileHosts(p, parent)
	r.settings.Exec = r.settings.Exec.Exact(len(hosts) > 0, inherits)
	return hosts
}

// chain returns the names of the ancestors that are children, followed by the child itself.
func (l Launch) chain() []string {
	if l.Child == nil {
		return nil
	}
	return l.Child.Chain
}

// chain returns the child's name in progress messages, with its profile.
func (r *Run) chain() string {
	return r.launch.Child.Manifest.Profile + " " + strings.Join(r.launch.chain(), "/")
}

// there splits names into skills that can be used and those that are missing or were disabled by
// the operator or the user. Names with a star are rejected, because they would match several skills
// in the list of those the child may use.
func (r *Run) there(names []string) (have, missing []string) {
	have, missing = []string{}, []string{}
	g := r.snapshot.Grants(r.grants())
	for _, n := range names {
		sk, err := r.snapshot.Find(n)
		if err == nil {
			id := sk.ID.String()
			if effect, _ := g.Skill(id, sk.Name); effect == policy.RuleDeny || strings.Contains(n, "*") { // Find takes no name for an ID
				err = fs.ErrNotExist
			}
		}
		if err != nil {
			missing = append(missing, n)
		} else {
			have = append(have, n)
		}
	}
	return have, missing
}

// unrestricted returns an error if a subagent would start without a skill of its profile whose
// allowed-tools list restricts it. Settings files of a workspace can deny skills, and must not give a
// subagent more tools by that.
func (r *Run) unrestricted(p subagent.Profile, name string) error {
	if n := r.grants().Narrow; !slices.Contains(p.Skills, name) || n == policy.NarrowIgnore || n == policy.NarrowAdvise {
		return nil
	}
	for sk := range r.snapshot.Each() {
		if (sk.Name == name || sk.ID.String() == name) && sk.Head.Front.AllowedToolsDeclared {
			return &metier.Error{Op: "run", Skill: name, Kind: metier.Denied, Code: policy.CodeSkillDenied, Hint: "allow the skill, or remove it from the profile",
				Err: fmt.Errorf("the profile %s starts with this skill, which restricts the subagent's tools, but the skill cannot be used", p.Name)}
		}
	}
	return nil
}

// trust approves the scripts of a profile if their skills have a trusted origin. A name does not
// prove who wrote a skill. Scripts of a workspace or a third-party root therefore require approval,
// and so do the user's own scripts if they run on the host.
func (r *Run) trust(ctx context.Context) error {
	for _, e := range r.launch.Scripts {
		name, _, _ := cutEntry(e)
		sk, err := r.snapshot.Find(name)
		if err != nil {
			continue // the skill is missing, and told so
		}
		if t := sk.Tier.Or(); t != policy.Builtin && t != policy.Org && (t != policy.User || r.launch.Child.Manifest.Target == subagent.TargetHost) {
			continue
		}
		if err := r.approve(ctx, []string{e}, false); err != nil && metier.CodeOf(err) != "script_not_indexed" {
			return err
		}
	}
	return nil
}
