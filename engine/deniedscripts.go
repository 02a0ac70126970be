package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/internal/nearest"
	"metier/internal/termtext"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// DeniedScript is a script that the run was denied, and that the operator can allow.
type DeniedScript struct {
	// Entry is the value of Request.Scripts that allows the script: SKILL:scripts/PATH.
	Entry string `json:"entry"`
	// Code is why the call was denied: [policy.CodeToolNotAllowed] if the model had no tool to run
	// scripts, [policy.CodeScriptUnlisted], or [policy.CodeRefused].
	Code string `json:"code"`
}

// deniedScripts reads from the log of a run which scripts were denied only because the operator did
// not allow them. denied are the run's denied calls. It leaves out scripts that do not exist. Paths come
// from the model.
func (r *Run) deniedScripts(ctx context.Context, denied []event.Denial) ([]DeniedScript, error) {
	if r.settings.NoScripts() || r.launch.Spec.Mode == agent.ModePlan {
		return nil, nil // allowing a script would not help
	}
	if !slices.ContainsFunc(denied, func(d event.Denial) bool { return d.Tool == settings.ToolRunSkillScript }) {
		return nil, nil
	}
	var out []DeniedScript
	args := map[string]record.Ref{} // of calls that were asked about
	for e, err := range events(ctx, r.log) {
		if err != nil {
			return nil, err
		}
		ref, code := record.Ref{}, ""
		switch e := e.(type) {
		case event.PolicyDecided:
			if e.Tool != settings.ToolRunSkillScript || e.Stage != "call" {
				continue
			}
			args[e.Call] = e.Args
			if e.Outcome == policy.Deny && (e.Code == policy.CodeToolNotAllowed || e.Code == policy.CodeScriptUnlisted) {
				ref, code = e.Args, e.Code
			}
		case event.ApprovalAnswered:
			if !e.Allow {
				ref, code = args[e.Call], policy.CodeRefused
			}
		}
		if ref.Digest == "" {
			continue
		}
		if d := (DeniedScript{r.scriptIn(ctx, ref), code}); d.Entry != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out, nil
}

// scriptIn returns the entry of the script that a call is about, or "" if there is no such script.
func (r *Run) scriptIn(ctx context.Context, ref record.Ref) string {
	var args struct{ Skill, Path string }
	b, err := r.folder.Blobs().Open(ctx, ref)
	if err != nil || json.Unmarshal(b, &args) != nil {
		return ""
	}
	entries, err := ScriptEntries("", []string{args.Skill + ":" + args.Path})
	if err != nil {
		return ""
	}
	sk, file, err := r.scriptOf(ctx, entries[0])
	switch {
	case err != nil:
		return ""
	case r.needsID(sk):
		return ownEntry(sk, file)
	}
	return entries[0]
}

// scriptOf finds the script that an entry names, and its skill with an index of its files.
func (r *Run) scriptOf(ctx context.Context, entry string) (sk metier.Skill, file string, err error) {
	name, file, _ := cutEntry(entry)
	if sk, err = r.snapshot.Find(name); err != nil {
		return sk, "", err
	}
	if sk, err = r.snapshot.Index(ctx, sk); err != nil {
		return sk, "", err
	}
	var scripts []string
	for _, f := range sk.Resources {
		if strings.HasPrefix(f.Path, "scripts/") {
			scripts = append(scripts, f.Path)
		}
	}
	if !slices.Contains(scripts, file) {
		return sk, "", &metier.Error{Op: "run", Skill: name, Path: file, Kind: metier.NotFound, Code: "script_not_indexed", Hint: "'metier show " + termtext.Word(name) + "' lists its files",
			Err: fmt.Errorf("the skill has no script with this path%s", nearest.Hint(file, scripts))}
	}
	return sk, file, nil
}
