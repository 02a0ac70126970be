package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/exectool"
	"metier/internal/errorcodes"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// modelNone is the recorded model of a program that calls tools itself.
const modelNone = "none"

// Exec runs one script of a skill in a separate run. Naming the script activates the skill and
// approves it in its current state. timeout is the time limit, 0 for the default. If the script did
// not run, the error says why.
func (e *Engine) Exec(ctx context.Context, q Request, call exectool.Script, timeout time.Duration, h Hooks) (o metier.Observation, err error) {
	q.PromptRole, q.Tools = policy.DirectCommand, []string{settings.ToolRunSkillScript}
	p, _, err := e.PlanTools(ctx, q)
	if err != nil {
		return o, err
	}
	if p.settings.NoScripts() {
		return o, metier.Fieldf(metier.Invalid, "Request.Profile", "scripts_off", "choose another profile with Request.Profile", "this profile does not run scripts of skills")
	}
	p.one = true
	r, err := e.prepare(ctx, p, h)
	if err != nil {
		return o, err
	}
	defer func() { err = closed(r.Close(context.WithoutCancel(ctx)), err) }()
	var probed sync.WaitGroup
	defer probed.Wait()
	if r.sandbox != nil { // the script's checks need the result, and it takes as long as opening the record
		probed.Go(func() { r.sandbox.Probe(ctx) })
	}
	if err := e.rememberSources(r.launch); err != nil {
		return o, err
	}
	folder, err := e.CreateRecord(ctx, r.launch.Workspace, r.launch.Artifacts, e.RunID())
	if err != nil {
		return o, err
	}
	r.limits.Wall = timeout
	if err := r.open(ctx, folder); err != nil {
		return o, err
	}
	r.noteHosts()
	r.noteUnconfined()
	r.NoteReadOnly()
	if o, err = r.exec(ctx, call); err == nil && o.Detail() == nil {
		err = refusedScript(o)
	}
	return o, err
}

// exec activates the skill and runs the script.
func (r *Run) exec(ctx context.Context, call exectool.Script) (o metier.Observation, err error) {
	s := r.session
	typed := fmt.Sprintf("run %s of %s", call.Path, call.Skill)
	if _, err := s.Send(ctx, metier.Input{ID: "exec", Parts: []model.Part{model.Text(typed)}, Role: policy.DirectCommand, Surface: r.from, By: r.e.Principal()}); err != nil {
		return o, err
	}
	if _, err := s.Activate(ctx, call.Skill, sourceUser); err != nil {
		return o, err
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return o, err
	}
	return s.Call(ctx, metier.Call{ID: "exec", Tool: settings.ToolRunSkillScript, Args: raw, Actor: policy.ByOperator, By: r.e.Principal()})
}

// refusal is the kind of the error for the code of a failed check or a policy denial, and a hint
// for messages without one.
type refusal struct {
	kind metier.Kind
	hint string
}

const seeFiles = "'metier show SKILL' lists the skill's files"

// refusals are the codes with which a script can be denied. Other codes mean that it failed.
var refusals = map[string]refusal{
	"invalid_arguments":        {metier.Invalid, "see 'metier exec --help'"},
	"script_path_invalid":      {metier.Invalid, seeFiles},
	"resource_not_script":      {metier.Invalid, seeFiles},
	"cwd_outside":              {metier.Invalid, "omit Request.Cwd, or specify a folder in the workspace"},
	"skill_not_found":          {metier.NotFound, ""},
	"skill_registry_missing":   {metier.NotFound, "specify a skills folder with Request.Roots"},
	"script_not_indexed":       {metier.NotFound, seeFiles},
	"script_not_found":         {metier.NotFound, seeFiles},
	"script_not_file":          {metier.NotFound, seeFiles},
	"script_snapshot_mismatch": {metier.Drift, "run it again when no other program is changing the skill"},
	"script_outside_root":      {metier.Denied, "a script must be in its skill's folder; links that point outside it are not followed"},
	"permission_denied":        {metier.Denied, "make the file readable"},
	"script_not_allowlisted":   {metier.Denied, "allow it with Request.Scripts SKILL:scripts/PATH"},
	policy.CodeSkillDenied:     {metier.Denied, "the operator's configuration or policy file, or the workspace's metier.yaml, denies it"},
	policy.CodeNotNarrowed:     {metier.Denied, "the skill's allowed-tools field does not include scripts"},
	policy.CodeRefused:         {metier.Denied, "the question was answered with no"},
	policy.CodeRuleDenied:      {metier.Denied, "the rule is in a policy file: Request.Policies, or policy: in the configuration"},
	policy.CodeScriptsOff:      {metier.Denied, "change the scripts setting"},
	policy.CodeNotActivated:    {metier.Denied, "with scripts=tiered, activate the skill first"},
	policy.CodeNetworkDenied:   {metier.Denied, "grant the host with Request.Hosts, if the script_network setting allows it"},
	"secret_unavailable":       {metier.Unavailable, "set the variable, fix the file, or remove the secret from the configuration"},
}

// refusedScript returns the error for a script that did not run.
func refusedScript(o metier.Observation) error {
	text := strings.TrimPrefix(strings.TrimSpace(o.Text()), o.Code()+": ")
	r, known := refusals[o.Code()]
	if !known {
		r.kind = metier.Unavailable
		if c, _ := errorcodes.Of(o.Code()); c.Kinds != "" && !strings.Contains(c.Kinds, ",") {
			r.kind = metier.Kind(c.Kinds)
		}
		if i := strings.LastIndex(text, "; "); i > 0 { // the tool's own suggestion
			text, r.hint = text[:i], text[i+2:]
		}
	}
	return &metier.Error{Op: "exec", Kind: r.kind, Code: o.Code(), Hint: r.hint, Err: errors.New(text)}
}
