package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// known checks that every skill to be preloaded is there and can be loaded.
func (j *job) known() error {
	for _, name := range j.launch.Skills {
		if _, err := j.snapshot.Find(name); err != nil {
			return j.unloadable(name, err)
		}
	}
	return nil
}

// unloadable turns "there is no such skill" into what is wrong with its file,
// where there is one.
func (j *job) unloadable(name string, err error) error {
	if metier.CodeOf(err) != "skill_not_found" {
		return err
	}
	for _, d := range j.snapshot.Diagnostics() {
		if d.Severity != skillmd.Error || !strings.EqualFold(filepath.Base(filepath.Dir(d.Path)), name) {
			continue
		}
		hint := "mend the file that is named"
		if e, ok := err.(*metier.Error); ok && e.Hint != "" {
			hint += "; " + e.Hint
		}
		return &problem{exit: exitFailed, code: "skill_invalid", hint: hint,
			err: fmt.Errorf("skill %q cannot be loaded: %s: %s: %s", name, place(d), d.Code, d.Detail)}
	}
	return err
}

// noteSkipped names the skills that are there and cannot be loaded. The record
// has all diagnostics; people are told of the first few.
func (j *job) noteSkipped() {
	if j.a.json {
		return
	}
	for _, m := range j.snapshot.Mounts() {
		for _, d := range m.Notes {
			if d.Severity == skillmd.Warning {
				fmt.Fprintf(j.a.Err, "note: %s: %s: %s\n", oneLine(d.Path), d.Code, oneLine(d.Detail))
			}
		}
	}
	j.noteFound("left out ", func(d metier.Diagnostic) bool { return d.Severity == skillmd.Error })
	j.noteFound("", func(d metier.Diagnostic) bool {
		return d.Severity == skillmd.Warning && slices.Contains(namedFaults, d.Code)
	})
}

// namedFaults are the warnings that change what a skill is called or described
// as, so that its author has to see them.
var namedFaults = []string{"name-directory-mismatch", "missing-name", "missing-description"}

// noteFound prints the first few diagnostics of a kind and counts the others.
func (j *job) noteFound(what string, is func(metier.Diagnostic) bool) {
	const most = 5
	n := 0
	for _, d := range j.snapshot.Diagnostics() {
		if !is(d) {
			continue
		}
		if n++; n <= most {
			fmt.Fprintf(j.a.Err, "note: %s%s: %s: %s\n", what, oneLine(place(d)), d.Code, oneLine(d.Detail))
		}
	}
	if n > most {
		fmt.Fprintf(j.a.Err, "note: %d more; see them with metier list --all\n", n-most)
	}
}

// noteReadOnly reports that programs cannot write to the workspace.
func (j *job) noteReadOnly() {
	if dir := j.launch.skillsAround(); dir != "" && j.launch.runs() && !j.launch.harnessed() && !j.a.json {
		fmt.Fprintf(j.a.Err, "note: the workspace is in the skills folder %s, so programs cannot write to it; give another one with --workspace\n", oneLine(dir))
	}
}

// noteHosts says that granted hosts are of no use under the settings, or that
// who is to read pages has no host to read them of.
func (j *job) noteHosts() {
	if j.a.json || policy.NetworkRule(j.settings.Exec.Network) != policy.NetworkOff {
		return
	}
	var helpers []string // profiles that are of no use
	if s := j.launch.Subagents; s.may() {
		for _, p := range s.Profiles {
			if len(p.Hosts) > 0 && slices.ContainsFunc(p.Tools, func(t string) bool {
				return t == settings.ToolWebFetch || t == settings.ToolBash || t == settings.ToolRunSkillScript
			}) {
				helpers = append(helpers, p.Name)
			}
		}
	}
	switch {
	case len(j.launch.Hosts) > 0 && (j.launch.runs() || j.launch.fetches() || helpers != nil):
		fmt.Fprintf(j.a.Err, "note: %s granted, and the setting script_network is off: nothing reaches them; --set script_network=tiered, or set: in the configuration, lets programs\n", plural(len(j.launch.Hosts), "host"))
	case j.launch.fetches():
		fmt.Fprintf(j.a.Err, "note: %s is allowed, and there is no network for it: name hosts with --allow-host\n", settings.ToolWebFetch)
	}
	if len(j.launch.Hosts) == 0 && helpers != nil {
		fmt.Fprintf(j.a.Err, "note: there is no network for helpers of %s: name hosts with --allow-host, or set script_network=tiered for those that a profile names\n", strings.Join(helpers, ", "))
	}
}

// noteBrowser says which helpers need a browser that nobody lent.
func (j *job) noteBrowser() {
	l := j.launch
	if j.a.json || l.Browser != nil || !l.Subagents.may() {
		return
	}
	for _, p := range l.Subagents.Profiles {
		if p.Browser {
			fmt.Fprintf(j.a.Err, "note: no browser is lent to helpers of %s: --browser-endpoint, --browser-origin and --browser-until lend one\n", p.Name)
		}
	}
}

// place is where a diagnostic points.
func place(d metier.Diagnostic) string {
	if d.Line == 0 {
		return d.Path
	}
	return fmt.Sprintf("%s:%d:%d", d.Path, d.Line, d.Column)
}
