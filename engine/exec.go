package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"metier"
	"metier/exectool"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// modelNone is the recorded model of a program that calls tools itself.
const modelNone = "none"

// Exec runs one script of a skill in a separate run. Naming the script activates the skill and
// approves it in its current state. timeout is the time limit, 0 for the default.
func (e *Engine) Exec(ctx context.Context, q Request, call exectool.Script, timeout time.Duration, h Hooks) (o metier.Observation, err error) {
	q.PromptRole, q.Tools = policy.DirectCommand, []string{settings.ToolRunSkillScript}
	p, _, err := e.PlanTools(ctx, q)
	if err != nil {
		return o, err
	}
	if p.settings.NoScripts() {
		return o, metier.Fieldf(metier.Invalid, "Request.Profile", "scripts_off", "choose another profile with Request.Profile", "this profile does not run scripts of skills")
	}
	r, err := e.prepare(ctx, p, h)
	if err != nil {
		return o, err
	}
	defer func() { err = closed(r.Close(context.WithoutCancel(ctx)), err) }()
	folder, err := e.CreateRecord(ctx, r.launch.Workspace, r.launch.Artifacts, e.RunID())
	if err != nil {
		return o, err
	}
	r.limits.Wall = timeout
	if err := r.open(ctx, folder); err != nil {
		return o, err
	}
	r.noteHosts()
	r.NoteReadOnly()
	return r.exec(ctx, call)
}

// exec activates the skill and runs the script.
func (r *Run) exec(ctx context.Context, call exectool.Script) (o metier.Observation, err error) {
	s := r.session
	typed := fmt.Sprintf("run %s of %s", call.Path, call.Skill)
	if _, err := s.Send(ctx, metier.Input{ID: "exec", Parts: []model.Part{model.Text(typed)}, Role: policy.DirectCommand, Surface: r.from, By: r.e.Principal()}); err != nil {
		return o, err
	}
	if _, err := s.Activate(ctx, call.Skill, "user-explicit"); err != nil {
		return o, err
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return o, err
	}
	return s.Call(ctx, metier.Call{ID: "exec", Tool: settings.ToolRunSkillScript, Args: raw, Actor: policy.ByOperator, By: r.e.Principal()})
}
