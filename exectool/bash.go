package exectool

import (
	"context"
	_ "embed"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/internal/runtimes"
	"metier/internal/shell"
	"metier/model"
	"metier/policy"
	"metier/sandbox"
	"metier/settings"
)

//go:embed bash.md
var bashText string

// bashArgs are the arguments of bash.
type bashArgs struct {
	Command string `json:"command"`
	Cwd     string `json:"cwd,omitempty"`
	MS      *int   `json:"timeoutMs,omitempty"`
}

// bashTool runs a shell command in the workspace, in the same sandbox as scripts. The files of
// active skills, and those of skills that the command names, are available at /skills. They are
// left out if scripts of skills are disabled, because any file there could be run.
type bashTool struct{ *runner }

func (t bashTool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	props := map[string]any{
		"command":   argschema.Text("The bash command."),
		"cwd":       argschema.Text("Working folder, in the paths of the file tools."),
		"timeoutMs": t.timeoutArg(),
	}
	return metier.Spec{Canonical: settings.ToolBash, Effect: policy.SideEffect,
		ToolSpec: model.ToolSpec{Name: settings.ToolBash, Description: t.about(), Schema: argschema.Object(props, "command")}}, true
}

func (t bashTool) about() string {
	text := strings.TrimSpace(bashText)
	if t.Exec.NoScripts() {
		text = strings.Replace(text, ", the files of skills below "+sandbox.SkillsDir+",", "", 1)
	}
	return text
}

func (t bashTool) args(raw json.RawMessage) (bashArgs, error) {
	var a bashArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return a, metier.InvalidArguments("command is empty")
	case len(a.Command) > argsMax || strings.ContainsRune(a.Command, 0):
		return a, metier.InvalidArguments("command has more than %d bytes, or a NUL byte", argsMax)
	case a.MS != nil && *a.MS < 1:
		return a, metier.InvalidArguments("timeoutMs is less than 1")
	}
	return a, nil
}

// Facts returns what the command would do, as far as its text shows: every simple command in it,
// and whether the list is complete.
func (t bashTool) Facts(ctx context.Context, _ *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	report := t.Sandbox.Probe(ctx)
	hosts, public := t.reachable()
	r := policy.Request{Effect: policy.SideEffect, Level: report.Level.String(), Network: networkText(hosts, public), Hosts: hosts}
	facts, err := shell.Facts(a.Command)
	if err != nil {
		return metier.Facts{}, metier.InvalidArguments("bash would not understand the command: %v", err)
	}
	r.Summary, r.Commands, r.Starts = a.Command, facts.Commands, facts.Starts
	r.Opaque, r.OpaqueWhy = facts.Opaque, strings.Join(facts.Why, ", ")
	fail := Script{Skill: "bash"}.refusal()
	dir, err := t.cwd(a.Cwd, t.home(), false, fail)
	if err == nil {
		err = t.strong(report)
	}
	if dir != t.home() && len(r.Commands) > 0 { // the words of an allow rule may be relative paths
		r.Commands = append([][]string{{"cd", a.Cwd}}, r.Commands...)
	}
	if err != nil {
		r.Broken, r.BrokenWhy = metier.CodeOf(err), worded(err)
	}
	return metier.Facts{Request: r}, nil
}

func (t bashTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return metier.Failure(err), nil
	}
	report := t.Sandbox.Probe(ctx)
	ev := event.CommandExecuted{Execution: event.Execution{Call: x.Call().ID, Target: target(report.Level), Runtime: "bash", Backend: report.Backend, Level: report.Level.String()}}
	j, err := t.job(ctx, x, a)
	w := watchStarts(x, report)
	if w != nil {
		j.Exec = w.exec
	}
	var ran sandbox.Result
	if err == nil {
		ran, err = t.run(ctx, x, j, nil, &ev.Execution)
	}
	if err != nil {
		ev.Status, ev.Code = "error", metier.CodeOf(err)
		x.Record(ev)
		return metier.Failure(err), nil
	}
	res, err := reply(x, ev.Execution, "", ran, j.Argv, policy.Label{Role: policy.Context, Origin: settings.ToolBash, Mediated: true})
	if err == nil && w.refused() {
		res = w.result(x, res)
		ev.Code = res.Code
	}
	x.Record(ev)
	return res, err
}

func (t bashTool) job(ctx context.Context, x *metier.ToolContext, a bashArgs) (sandbox.Job, error) {
	j := sandbox.Job{Env: []string{"CF_HARNESS_RUN_ID=" + t.Run}, Limits: t.asked(a.MS)}
	fail := Script{Skill: "bash"}.refusal()
	report := t.Sandbox.Probe(ctx)
	if err := t.strong(report); err != nil {
		return j, err
	}
	bash, ok := runtimes.Lookup(report.Visible)("bash")
	if !ok {
		return j, fail(metier.Unsupported, runtimes.CodeInterpreter, "there is no bash where commands run", "")
	}
	j.Argv = []string{bash, "--noprofile", "--norc", "-c", a.Command}
	var err error
	if j.Dir, err = t.cwd(a.Cwd, t.home(), false, fail); err != nil {
		return j, err
	}
	if t.Exec.NoScripts() {
		return j, nil
	}
	j.Trees, err = t.trees(ctx, x, a.Command)
	return j, err
}

// trees stages the files of the active skills, and of other skills whose folder the command names
// and that the model may read.
func (t bashTool) trees(ctx context.Context, x *metier.ToolContext, command string) ([]sandbox.Tree, error) {
	s := x.Session()
	var list []metier.Skill
	for _, act := range x.Active() {
		if sk, err := s.Snapshot().Find(act.ID); err == nil { // else it is gone; its instructions stay, its files cannot
			list = append(list, sk)
		}
	}
	active := len(list)
	if strings.Contains(command, sandbox.SkillsDir+"/") {
		for sk := range s.Snapshot().Each() {
			if mentions(command, stagedAt(sk)) && !slices.ContainsFunc(list, func(a metier.Skill) bool { return a.ID == sk.ID }) && x.Readable(ctx, sk) {
				list = append(list, sk)
			}
		}
	}
	var trees []sandbox.Tree
	total := int64(0) // of all: each byte is in memory several times
	for i, sk := range list {
		full, err := x.Files(ctx, sk)
		if err != nil && (i < active || ctx.Err() != nil) {
			return nil, err
		}
		var tree sandbox.Tree
		if err == nil {
			err = x.Approved(full)
		}
		if err == nil {
			full, err = visible(ctx, x, full)
		}
		if err == nil {
			tree, err = t.stage(ctx, s, full, total)
		}
		if err == nil && i >= active {
			err = unsuspicious(x, full, tree)
		}
		if err != nil {
			x.Record(event.Note{Code: "skill-not-staged", On: sk.ID.String()})
			continue
		}
		for _, f := range tree.Files {
			total += int64(len(f.Data))
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

// visible omits from a skill the files of skills in its folder that rules keep from the model.
func visible(ctx context.Context, x *metier.ToolContext, sk metier.Skill) (metier.Skill, error) {
	s, below := x.Session(), strings.TrimSuffix(path.Join(sk.ID.Path, "x"), "x")
	if !slices.ContainsFunc(s.Snapshot().All(), func(o metier.Skill) bool {
		return o.ID.Source == sk.ID.Source && o.ID != sk.ID && strings.HasPrefix(o.ID.Path, below)
	}) {
		return sk, nil
	}
	var files []metier.Resource
	for _, f := range sk.Resources {
		in, told, err := s.Entry(ctx, sk.ID.String(), f.Path)
		switch {
		case err != nil:
			return sk, err
		case in.ID != sk.ID && (!told || x.Approved(in) != nil):
			continue
		}
		files = append(files, f)
	}
	sk.Resources = files
	return sk, nil
}

// mentions reports whether a command contains a folder's path, rather than a longer name that
// begins with it.
func mentions(command, dir string) bool {
	for {
		_, after, found := strings.Cut(command, dir)
		if !found {
			return false
		}
		if r, _ := utf8.DecodeRuneInString(after); r == utf8.RuneError || r != '-' && r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return true
		}
		command = after
	}
}

// unsuspicious applies the checks of loading a skill to one that is not active.
func unsuspicious(x *metier.ToolContext, sk metier.Skill, tree sandbox.Tree) error {
	for _, f := range tree.Files {
		if f.Path == sk.Head.FileName {
			return x.Suspect(sk, f.Path, string(f.Data))
		}
	}
	return nil
}
