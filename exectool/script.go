package exectool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/model"
	"metier/policy"
	"metier/sandbox"
	"metier/settings"
)

// Limits that no setting can change.
const (
	scriptMax   = 1 << 20          // bytes of a script
	treeMax     = 64 << 20         // bytes of skills that are staged for one program
	argsMax     = 128 << 10        // bytes of arguments and standard input together
	timeoutMost = 10 * time.Minute // the longest a call may ask for, unless the operator's limit is longer
)

//go:embed run_skill_script.md
var scriptText string

//go:embed run_script.md
var pathText string

// Script is one call of a skill's script: the arguments of run_skill_script.
type Script struct {
	Skill string   `json:"skill"`
	ID    string   `json:"skillId,omitempty"` // in place of Skill, where the model is shown no paths
	Path  string   `json:"path"`              // relative to the skill's folder: scripts/x
	Args  []string `json:"args,omitempty"`
	Cwd   string   `json:"cwd,omitempty"`       // as the model sees paths; "": by the setting script_cwd
	MS    *int     `json:"timeoutMs,omitempty"` // nil: the limit of the operator
	Stdin string   `json:"stdin,omitempty"`     // not with script_stage=stdin
}

// scriptTool runs a script of a skill.
type scriptTool struct{ *runner }

func (t scriptTool) Spec(_ context.Context, s *metier.Session) (metier.Spec, bool) {
	_, skills := s.Snapshot().Count()
	props := map[string]any{
		"skill":     argschema.Text("Name of the skill."),
		"path":      argschema.Text("Path of the script in the skill's folder, for example scripts/report.py."),
		"args":      argschema.Texts("Arguments, passed unchanged, without a shell."),
		"cwd":       argschema.Text("Working folder, in the paths of the file tools."),
		"timeoutMs": t.timeoutArg(),
	}
	if !t.onStdin() {
		props["stdin"] = argschema.Text("Text for the script's standard input.")
	}
	if t.ByPath != nil {
		props["skill"], props["script"] = argschema.Text("Path of the skill in the harness."), argschema.Text("Name of the script, as listed in the skill.")
		delete(props, "path")
		return metier.Spec{Canonical: settings.ToolRunSkillScript, Effect: policy.SideEffect,
			ToolSpec: model.ToolSpec{Name: t.Name, Description: strings.TrimSpace(pathText) + t.Host.about(t.Exec.HostCDP), Schema: argschema.Object(props, "skill", "script")}}, skills > 0
	}
	required := []string{"skill", "path"}
	if t.View.None() {
		props["skillId"], required = argschema.Text("ID of the skill; give it or skill."), []string{"path"}
	}
	return metier.Spec{Canonical: settings.ToolRunSkillScript, Effect: policy.SideEffect,
		ToolSpec: model.ToolSpec{Name: t.Name, Description: strings.TrimSpace(scriptText) + t.Host.about(t.Exec.HostCDP), Schema: argschema.Object(props, required...)}}, skills > 0
}

// byPath identifies a script as harnesses do: a skill's path as skill (v1) or path (v2), and the
// script's name. With skill and path but no script it is a Script, as in the operator's own
// commands.
type byPath struct {
	Skill  string   `json:"skill,omitempty"`
	Path   string   `json:"path,omitempty"`
	Script string   `json:"script,omitempty"`
	Args   []string `json:"args,omitempty"`
	Cwd    string   `json:"cwd,omitempty"`
	MS     *int     `json:"timeoutMs,omitempty"`
	Stdin  string   `json:"stdin,omitempty"`
}

// decode parses the arguments in the form that the tool accepts.
func (t scriptTool) decode(ctx context.Context, s *metier.Session, raw json.RawMessage) (Script, error) {
	var a Script
	if t.ByPath == nil {
		var without []string
		if !t.View.None() {
			without = append(without, "skillId")
		}
		err := metier.DecodeArgs(raw, &a, without...)
		if err == nil {
			a.Skill, err = s.Identify("skill", a.Skill, a.ID)
		}
		return a, err
	}
	var p byPath
	if err := metier.DecodeArgs(raw, &p); err != nil {
		return a, err
	}
	switch {
	case p.Skill == "":
		p.Skill = p.Path
	case p.Script == "":
		p.Script = p.Path
	case p.Path != "":
		return a, metier.InvalidArguments("skill, path and script are two things: a skill's path, and a script's name")
	}
	if p.Skill == "" || p.Script == "" {
		return a, metier.InvalidArguments("skill or script is missing")
	}
	name, file, err := t.ByPath(ctx, s, p.Skill, p.Script)
	return Script{Skill: name, Path: file, Args: p.Args, Cwd: p.Cwd, MS: p.MS, Stdin: p.Stdin}, err
}

func (t scriptTool) args(ctx context.Context, s *metier.Session, raw json.RawMessage) (Script, error) {
	a, err := t.decode(ctx, s, raw)
	if err != nil {
		return a, err
	}
	size := len(a.Stdin)
	for _, arg := range a.Args {
		size += len(arg)
		if strings.ContainsRune(arg, 0) {
			return a, metier.InvalidArguments("an argument holds a NUL byte, which no program can be given")
		}
	}
	switch {
	case a.MS != nil && *a.MS < 1:
		return a, metier.InvalidArguments("timeoutMs is less than 1")
	case a.Stdin != "" && t.onStdin():
		return a, metier.InvalidArguments("stdin is not available here: the script itself is read from it")
	case size > argsMax:
		return a, metier.InvalidArguments("args and stdin have more than %d bytes", argsMax)
	}
	return a, nil
}

func (t scriptTool) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(ctx, s, raw)
	if err != nil {
		return metier.Facts{}, err
	}
	p, err := t.ready(ctx, s, a, s.Files)
	if err != nil {
		return metier.Facts{}, err
	}
	sub := p.skill.Subject()
	hosts, public := t.reachable()
	if p.host { // who put the script there gave it the network of the host
		hosts, public = nil, false
	}
	r := policy.Request{Effect: policy.SideEffect, Skill: &sub, Entry: p.entry(), Runtime: p.command.Runtime, Programs: p.command.Programs(), Level: p.level.String(), Host: p.host, Network: networkText(hosts, public), Hosts: hosts}
	if in, _, err := s.Entry(ctx, sub.ID, p.script.Path); err == nil && in.ID != p.skill.ID {
		r.Gives = []policy.Subject{in.Subject()}
	}
	if p.broken != nil {
		r.Broken, r.BrokenWhy = metier.CodeOf(p.broken), worded(p.broken)
		kind := metier.KindOf(p.broken)
		r.Fault = kind != metier.Denied && kind != metier.Drift // a changed file is refused
	}
	return metier.Facts{Request: r}, nil
}

// worded returns an error with its hint.
func worded(err error) string {
	if e, ok := errors.AsType[*metier.Error](err); ok && e.Hint != "" {
		return err.Error() + "; " + e.Hint
	}
	return err.Error()
}

// Stage reads a skill's files before it is activated, so that problems with them are found then,
// and reports where its scripts will find them. Each call reads and compares the bytes that run
// again.
func (t scriptTool) Stage(ctx context.Context, x *metier.ToolContext, sk metier.Skill) error {
	if sk.Head.Remote { // its files are fetched when a script of it runs (SEP-2640, lazy retrieval)
		return nil
	}
	if t.onStdin() || !slices.ContainsFunc(sk.Resources, func(r metier.Resource) bool { return r.Kind == metier.Script }) {
		return nil
	}
	tree, err := t.stage(ctx, x.Session(), sk, 0)
	if err != nil {
		x.Record(event.Note{Code: "skill-not-staged", On: sk.ID.String()})
		return nil // its instructions are of use without its scripts; a call says what is wrong
	}
	ev := event.Staged{Call: x.Call().ID, SkillID: sk.ID.String(), Name: sk.Name, Tree: string(sk.Tree), Path: tree.Path, Files: len(tree.Files)}
	for _, f := range tree.Files {
		ev.Bytes += int64(len(f.Data))
	}
	x.Record(ev)
	return nil
}

func (t scriptTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(ctx, x.Session(), x.Call().Args)
	if err != nil {
		return metier.Failure(err), nil
	}
	p, err := t.ready(ctx, x.Session(), a, x.Files)
	if err == nil {
		err = p.broken
	}
	if err == nil {
		err = t.dependencies(ctx, x, p)
	}
	var job sandbox.Job
	if err == nil {
		job, err = t.job(ctx, x.Session(), p)
	}
	ev := p.event(x)
	var ran sandbox.Result
	if err == nil {
		ran, err = t.run(ctx, x, job, &p, &ev.Execution)
	}
	if err != nil {
		ev.Status, ev.Code = "error", metier.CodeOf(err)
		x.Record(ev)
		return metier.Failure(err), nil
	}
	x.Record(ev)
	res, err := reply(x, ev.Execution, ev.ObservedDigest, ran, job.Argv, policy.Label{Role: policy.Context, Origin: p.skill.ID.String(), Tier: p.skill.Tier, Mediated: true})
	if err == nil && x.Session().PlainReplies() {
		res.Parts = metier.Text(plainOutput(ran)).Parts
	}
	if p.host && err == nil {
		res = t.leased(res, ev.Hosts)
	}
	return res, err
}

// event returns what is recorded about the script before it runs.
func (p prepared) event(x *metier.ToolContext) event.ScriptExecuted {
	return event.ScriptExecuted{SkillID: p.skill.ID.String(), Name: p.skill.Name, Source: p.skill.Tier.Or(), Path: short(p.script.Path), Entry: p.skill.Name + ":" + short(p.script.Path),
		Tree: string(p.skill.Tree), RegistryDigest: string(p.indexed.Digest), RegistrySize: p.indexed.Size, ObservedDigest: string(p.sum), ObservedSize: int64(len(p.data)),
		HostPath: p.indexed.Location, Role: policy.Context, Hash: string(p.skill.Digest),
		Execution: event.Execution{Call: x.Call().ID, Target: target(p.level), Runtime: p.command.Runtime, Cwd: p.cwd, Backend: p.backend, Level: p.level.String()}}
}

// job assembles the input of the script.
func (t scriptTool) job(ctx context.Context, s *metier.Session, p prepared) (sandbox.Job, error) {
	j := sandbox.Job{Argv: p.command.Argv, Dir: p.cwd, Stdin: strings.NewReader(p.script.Stdin), Limits: t.asked(p.script.MS)}
	if t.onStdin() {
		j.Stdin = strings.NewReader(string(p.data))
	}
	if !t.onStdin() || p.host {
		tree, err := t.stage(ctx, s, p.skill, 0)
		if err != nil {
			return j, err
		}
		j.Trees = []sandbox.Tree{tree}
	}
	// These five are set in every profile.
	j.Env = append(slices.Clone(p.command.Env), "CF_HARNESS_RUN_ID="+t.Run, "SKILL_NAME="+p.skill.Name, "SKILL_DIR="+p.dir,
		"SKILL_SCRIPT="+path.Join(p.dir, p.script.Path), "CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET="+target(p.level))
	return j, nil
}
