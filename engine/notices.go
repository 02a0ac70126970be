package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/event"
	"metier/internal/nearest"
	"metier/internal/plural"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/skillroots"
)

// known checks that every skill to preload exists and can be loaded.
func (r *Run) known() error {
	for _, name := range r.launch.Skills {
		if _, err := r.snapshot.Find(name); err != nil {
			return r.unloadable(name, err)
		}
	}
	return nil
}

// unloadable replaces a "no such skill" error with the problem in the skill's file, if there is
// one.
func (r *Run) unloadable(name string, err error) error {
	if metier.CodeOf(err) != "skill_not_found" {
		return err
	}
	for _, d := range r.snapshot.Diagnostics() {
		if d.Severity != skillmd.Error || !strings.EqualFold(filepath.Base(filepath.Dir(d.Path)), name) {
			continue
		}
		hint := "fix the named file"
		if e, ok := err.(*metier.Error); ok && e.Hint != "" {
			hint += "; " + e.Hint
		}
		return metier.Errorf(metier.Unavailable, "skill_invalid", hint, "skill %q cannot be loaded: %s: %s: %s", name, d.At(), d.Code, d.Detail)
	}
	return err
}

// noteSkipped names the skills that exist but cannot be loaded, and those with a faulty name or
// description. The user sees the first few diagnostics, and a count of the other folders' skills.
// The record has all of them.
func (r *Run) noteSkipped() {
	for _, m := range r.snapshot.Mounts() {
		for _, d := range m.Notes {
			switch d.Severity {
			case skillmd.Warning:
				r.note(d.Code, "%s: %s: %s", d.Path, d.Code, d.Detail)
			case skillmd.Error:
				r.note(d.Code, "left out %s: %s: %s", d.Path, d.Code, d.Detail)
			}
		}
	}
	failed := func(d metier.Diagnostic) bool { return d.Severity == skillmd.Error }
	faulty := func(d metier.Diagnostic) bool {
		return d.Severity == skillmd.Warning && slices.Contains(namedFaults, d.Code)
	}
	concerns := r.concerns()
	r.noteFound("left out ", func(d metier.Diagnostic) bool { return failed(d) && concerns(d.Path) })
	r.noteFound("", func(d metier.Diagnostic) bool { return faulty(d) && concerns(d.Path) })
	others, left := map[string]bool{}, map[string]bool{}
	for _, d := range r.snapshot.Diagnostics() {
		if (failed(d) || faulty(d)) && !concerns(d.Path) {
			others[d.Path] = true
			if failed(d) {
				left[d.Path] = true
			}
		}
	}
	if len(others) > 0 {
		r.note("skill_findings", "other skills with warnings or errors: %d, of which %d left out; 'metier list' shows them, and Hooks.Verbose prints each finding", len(others), len(left))
	}
}

// concerns returns a function that reports whether the findings about a skill file are shown one by
// one: if the run loads the skill, or if its folder is in the project or was named for the run. The
// findings in other folders, such as those of the user, are the same in every run.
func (r *Run) concerns() func(path string) bool {
	called, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(r.launch.Prompt), "/"), " ")
	names, files := append([]string{called}, r.launch.Skills...), map[string]bool{}
	for _, name := range names {
		if sk, err := r.snapshot.Find(name); err == nil {
			files[sk.Head.Location] = true
		}
	}
	return func(path string) bool {
		folder := filepath.Base(filepath.Dir(path))
		if r.hooks.Verbose || files[path] || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, folder) }) {
			return true
		}
		var of skillroots.Root
		for _, root := range r.launch.Roots {
			if rel, err := filepath.Rel(root.Path, path); err == nil && filepath.IsLocal(rel) && len(root.Path) > len(of.Path) {
				of = root
			}
		}
		return of.Path == "" || of.Named || of.Harness || of.Tier.Or() == policy.Project
	}
}

// noteGrants reports grants that are missing, or that have no effect.
func (r *Run) noteGrants() {
	r.noteDenied()
	r.noteUnusedScripts()
	r.noteNoLoading()
	r.noteNoPrograms()
	r.noteHosts()
	r.noteUnconfined()
	r.NoteReadOnly()
	r.noteBrowser()
}

// noteDenied reports denied skills that do not exist, which may be misspelled. The operator's
// configuration may deny skills that other workspaces have.
func (r *Run) noteDenied() {
	if len(r.launch.Denied) == 0 {
		return
	}
	skills := r.snapshot.All()
	var names []string
	for _, sk := range skills {
		names = append(names, sk.Name)
	}
	for _, d := range r.launch.Denied {
		g := policy.Grants{Denied: []string{d}}
		if !slices.Contains(r.op.Deny, d) && !slices.ContainsFunc(skills, func(sk metier.Skill) bool { return sk.Effect(&g) == policy.RuleDeny }) {
			r.note("deny_unmatched", "there is no skill %q to deny%s", d, nearest.Hint(d, names))
		}
	}
}

// noteUnusedScripts reports that the request allows scripts that neither the model nor its subagents
// have a tool to run.
func (r *Run) noteUnusedScripts() {
	l := r.launch
	if slices.Contains(l.Tools, settings.ToolRunSkillScript) {
		return
	}
	unused := l.Named
	if l.Subagents.may() {
		unused = slices.DeleteFunc(slices.Clone(unused), func(script string) bool {
			return slices.ContainsFunc(l.Subagents.Profiles, func(p subagent.Profile) bool { return slices.Contains(p.Scripts, script) })
		})
	}
	if len(unused) == 0 {
		return
	}
	what := plural.Of(len(unused), "script") + " allowed, but "
	switch {
	case r.settings.NoScripts():
		r.note("scripts_unused", "%sthe settings turn off scripts of skills; choose another profile with Request.Profile, or change the settings scripts and tool_script", what)
	case l.Spec.Mode == agent.ModePlan:
		r.note("scripts_unused", "%sRequest.Mode is %s, and its tools only read", what, agent.ModePlan)
	default:
		r.note("scripts_unused", "%sthe model has no tool to run scripts; to add it, use Request.Tools=%s,%s", what, ToolsDefault, settings.ToolRunSkillScript)
	}
}

// noteNoLoading reports that the model may run scripts, but cannot load the skills that have them,
// because the named tools replace the default ones.
func (r *Run) noteNoLoading() {
	l := r.launch
	_, skills := r.snapshot.Count()
	if slices.Contains(l.Tools, settings.ToolRunSkillScript) && !slices.Contains(l.Tools, settings.ToolLoadSkill) &&
		slices.Contains(r.settings.Tools.Default, settings.ToolLoadSkill) && len(l.Skills) == 0 && skills > 0 {
		r.note("no_skill_loading", "the model can use only %s, so it cannot load skills; to add the default tools, use Request.Tools=%s", strings.Join(l.Tools, ", "), ToolsDefault)
	}
}

// noteNoPrograms reports that a run in code mode cannot run code.
func (r *Run) noteNoPrograms() {
	if r.launch.Spec.Mode == agent.ModeCode && !slices.Contains(r.launch.Tools, settings.ToolBash) && !slices.Contains(r.launch.Tools, settings.ToolRunSkillScript) {
		r.note("no_programs", "Request.Mode is code, but no tool runs programs; to let the model run commands, use Request.Tools=%s,%s", ToolsDefault, settings.ToolBash)
	}
}

// namedFaults are the warnings that change a skill's name or description, so its author has to see
// them.
var namedFaults = []string{"name-directory-mismatch", "missing-name", "missing-description"}

// noteFound reports the first few diagnostics of a kind and counts the others.
func (r *Run) noteFound(what string, is func(metier.Diagnostic) bool) {
	const most = 5
	n := 0
	for _, d := range r.snapshot.Diagnostics() {
		if !is(d) {
			continue
		}
		if n++; n <= most {
			r.note(d.Code, "%s%s: %s: %s", what, d.At(), d.Code, d.Detail)
		}
	}
	if n > most {
		r.note("more", "%d more; metier list shows them", n-most)
	}
}

// NoteReadOnly reports why tools or programs cannot write to the workspace.
func (r *Run) NoteReadOnly() {
	if dir := r.launch.skillsAround(); dir != "" && (r.launch.runs() || r.launch.edits()) && !r.launch.harnessed() {
		r.note("workspace_read_only", "the workspace is in the skills folder %s, so tools and programs cannot write to it; choose another one with Request.Workspace", dir)
	}
	if r.protected.partial && r.launch.runs() {
		r.note("workspace_read_only", "not everything can be protected, so programs cannot write to the workspace: the repository has more than %d submodules, or an index or a git configuration that cannot be read, or a skills folder has more folders than the setting max_dirs allows", mostLinked)
	}
}

// noteUnconfined reports that programs run without a sandbox.
func (r *Run) noteUnconfined() {
	if r.launch.Sandbox == BackendUnsafe && r.launch.runs() {
		r.note("no_sandbox", "%s is not a sandbox: programs run on the host without isolation", BackendUnsafe)
	}
}

// noteHosts reports that granted hosts have no effect under the settings, or that pages may be read
// but no host is granted.
func (r *Run) noteHosts() {
	if policy.NetworkRule(r.settings.Exec.Network) != policy.NetworkOff {
		return
	}
	var helpers []string // profiles that are of no use
	if s := r.launch.Subagents; s.may() {
		for _, p := range s.Profiles {
			if len(p.Hosts) > 0 && slices.ContainsFunc(p.Tools, func(t string) bool {
				return t == settings.ToolWebFetch || t == settings.ToolBash || t == settings.ToolRunSkillScript
			}) {
				helpers = append(helpers, p.Name)
			}
		}
	}
	switch {
	case len(r.launch.Hosts) > 0 && (r.launch.runs() || r.launch.fetches() || helpers != nil):
		r.note("hosts_unused", "%s granted, but the setting script_network is off, so programs cannot reach them; set script_network=tiered to allow it", plural.Of(len(r.launch.Hosts), "host"))
	case r.launch.fetches():
		r.note("no_hosts", "%s is allowed, but no host is granted; specify hosts with Request.Hosts", settings.ToolWebFetch)
	}
	if len(r.launch.Hosts) == 0 && helpers != nil {
		r.note("no_hosts", "subagents of %s have no network; specify hosts with Request.Hosts, or set script_network=tiered for the hosts of a profile", strings.Join(helpers, ", "))
	}
}

// noteBrowser reports which subagents need a browser session that was not granted.
func (r *Run) noteBrowser() {
	l := r.launch
	if l.Browser != nil || !l.Subagents.may() {
		return
	}
	for _, p := range l.Subagents.Profiles {
		if p.Browser {
			r.note("no_browser", "subagents of %s have no browser; share one with Request.Browser.Endpoint, Request.Browser.Origin, and Request.Browser.Until", p.Name)
		}
	}
}

// notices are the notices of a run and its subagents.
type notices struct {
	to func(Notice)

	mu        sync.Mutex
	list      []Notice
	unwritten []event.Note // not yet in the record
}

func (n *notices) add(one Notice) {
	n.mu.Lock()
	n.unwritten = append(n.unwritten, event.Note{Code: one.Code, Severity: one.Severity, Text: one.Text})
	n.mu.Unlock()
	n.deliver(one)
}

// once adds a notice unless there is one with its code.
func (n *notices) once(one Notice) {
	n.mu.Lock()
	known := slices.ContainsFunc(n.list, func(other Notice) bool { return other.Code == one.Code })
	n.mu.Unlock()
	if !known {
		n.add(one)
	}
}

// deliver passes on a notice about a fact that a record has already.
func (n *notices) deliver(one Notice) {
	n.mu.Lock()
	n.list = append(n.list, one)
	n.mu.Unlock()
	n.to(one)
}

// write returns the notices that are not yet in the record. The caller writes them.
func (n *notices) write() []event.Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.unwritten
	n.unwritten = nil
	return out
}

// prepend adds notices that came before the others.
func (n *notices) prepend(list []Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = slices.Concat(list, n.list)
}

func (n *notices) all() []Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// note sends a notice to the user of a run.
func (r *Run) note(code, format string, args ...any) {
	r.hooks.Notify(Notice{code, Note, fmt.Sprintf(format, args...)})
}

// note sends a notice to the user of the engine.
func (e *Engine) note(code, format string, args ...any) {
	e.o.Notify(Notice{code, Note, fmt.Sprintf(format, args...)})
}
