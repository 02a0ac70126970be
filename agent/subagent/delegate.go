package subagent

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

//go:embed delegate_task.md
var delegateText string

// Options of the tools. Runner is required.
type Options struct {
	Runner   Runner
	Profiles []Profile // all there are; which of them may start is policy's matter
	Allowed  []string  // names of those that may: the ones the model is told of
	Inherit  settings.Inherit
	Parallel int    // children at once; 0: 4
	Within   string // names the run these tools are of, where that is a child
	// Check says what is wrong with a JSON schema; nil refuses every schema.
	Check func(schema json.RawMessage) error
}

// maxTask bounds the task of one call, in bytes.
const maxTask = 64 << 10

// delegate is the tool delegate_task.
type delegate struct {
	Options
	slots chan struct{} // also for children that a driver did not know for such
}

// Tools returns the tools: delegate_task, describe_handle, and what runs skills
// with "context: fork" in the place of load_skill.
func Tools(o Options) []metier.Tool {
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	d := &delegate{Options: o, slots: make(chan struct{}, o.Parallel)}
	return []metier.Tool{d, handleTool{o.Runner}, forks{d}}
}

type delegateArgs struct {
	Profile string          `json:"profile,omitempty"`
	Task    string          `json:"task"`
	Skills  []string        `json:"skills,omitempty"`
	Output  json.RawMessage `json:"output_schema,omitempty"`
}

func (d *delegate) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	profile := argschema.Text("Kind of subagent: " + strings.Join(d.described(), "; "))
	profile["enum"] = d.Allowed
	props := map[string]any{
		"profile": profile,
		"task":    argschema.Text("The whole task, with all the context it needs."),
		"skills": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "maxItems": maxSkills,
			"description": "Names of skills to start with."},
		"output_schema": map[string]any{"type": "object", "description": "JSON schema of its answer, if required."},
	}
	if d.Inherit == settings.InheritNone {
		delete(props, "skills")
	}
	if d.Check == nil {
		delete(props, "output_schema")
	}
	required := []string{"task"}
	if !slices.Contains(d.Allowed, Default) {
		required = append(required, "profile")
	}
	return metier.Spec{Canonical: settings.ToolDelegateTask, Effect: policy.SideEffect,
		ToolSpec: model.ToolSpec{Name: settings.ToolDelegateTask, Description: strings.TrimSpace(delegateText), Schema: argschema.Object(props, required...)}}, len(d.Allowed) > 0
}

// described are the profiles the model may choose from, each with its description.
func (d *delegate) described() []string {
	var out []string
	for _, p := range d.Profiles {
		if slices.Contains(d.Allowed, p.Name) {
			out = append(out, p.Name+": "+strings.TrimSpace(p.Description))
		}
	}
	return out
}

// maxSkills is how many skills one call may name.
const maxSkills = 20

func (d *delegate) args(raw json.RawMessage) (delegateArgs, Profile, error) {
	var a delegateArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, Profile{}, err
	}
	if a.Profile == "" {
		a.Profile = Default
	}
	p, known := Find(d.Profiles, a.Profile)
	switch {
	case !known:
		p.Name = a.Profile // policy refuses it
	case strings.TrimSpace(a.Task) == "":
		return a, p, metier.InvalidArguments("task is missing")
	case len(a.Task) > maxTask:
		return a, p, metier.InvalidArguments("task has more than %d bytes; put the material into files and name them", maxTask)
	case len(a.Skills) > maxSkills:
		return a, p, metier.InvalidArguments("skills names more than %d", maxSkills)
	case len(a.Output) > maxTask:
		return a, p, metier.InvalidArguments("output_schema has more than %d bytes", maxTask)
	case a.Output != nil && d.Check == nil:
		return a, p, metier.InvalidArguments("output_schema is not available here")
	}
	if a.Output != nil {
		if err := d.Check(a.Output); err != nil {
			return a, p, metier.InvalidArguments("output_schema: %v", err)
		}
	}
	return a, p, nil
}

func (d *delegate) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, p, err := d.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	r := policy.Request{Effect: policy.SideEffect, Profile: p.Name, Within: d.Within, Summary: summary(p, a)}
	if slices.Contains(d.Allowed, p.Name) { // policy refuses any other
		if r.Gives, err = d.lets(ctx, s, p, a.Skills); err != nil {
			return metier.Facts{}, err
		}
	}
	return metier.Facts{Request: r}, nil
}

// lets gives the skills that a call names, beside those of the profile: each is one
// the profile lets it name, and one the model may know of.
func (d *delegate) lets(ctx context.Context, s *metier.Session, p Profile, names []string) (gives []policy.Subject, err error) {
	for _, n := range names {
		refuse := func(code, hint string, kind metier.Kind, format string, a ...any) ([]policy.Subject, error) {
			return nil, &metier.Error{Op: OpDelegate, Skill: n, Kind: kind, Code: code, Hint: hint, Err: fmt.Errorf(format, a...)}
		}
		if d.Inherit == settings.InheritNone {
			return refuse("subagent_skill_not_allowed", "leave skills out", metier.Denied, "a subagent here starts only with the skills of its profile")
		}
		sk, told, err := s.Entry(ctx, n, "")
		id := ""
		if err == nil && told {
			id = sk.ID.String()
		}
		if !p.Lets(id, n) {
			return refuse("subagent_skill_not_allowed", "choose another profile, or omit the skill", metier.Denied, "the profile %s does not take the skill %q", p.Name, n)
		}
		if err != nil || !told {
			return refuse("skill_not_found", "use a name from the catalog", metier.NotFound, "there is no skill %q", n)
		}
		if !slices.Contains(p.Skills, n) { // those the operator gave
			gives = append(gives, sk.Subject())
		}
	}
	return gives, nil
}

func summary(p Profile, a delegateArgs) string {
	const most = 300
	task := strings.Join(strings.Fields(a.Task), " ")
	if len(task) > most {
		task = strings.ToValidUTF8(task[:most], "") + "…"
	}
	return fmt.Sprintf("subagent %s: %s", p.Name, task)
}

func (d *delegate) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, p, err := d.args(x.Call().Args)
	if err != nil {
		return metier.Result{}, err
	}
	return d.spawn(ctx, x, Child{Profile: p, Task: a.Task, Skills: a.Skills, Output: a.Output})
}

// spawn runs a child for a call, or takes it up again, and makes the result.
func (d *delegate) spawn(ctx context.Context, x *metier.ToolContext, c Child) (metier.Result, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return metier.Result{}, &metier.Suspended{}
	}
	c.ID, c.Again = event.ChildName(x.Call().ID), x.Call().Try > 0
	begin, err := d.begin(ctx, x, c)
	if err != nil {
		return metier.Failure(err), nil
	}
	c.Skills = begin
	c.Manifest = Manifest{Profile: c.Profile.Name, Call: x.Call().ID, Skills: c.Skills, Scripts: c.Profile.Scripts, Target: c.Profile.Target,
		Tools: []string{}, Missing: []string{}, Return: returnChannel}
	o, err := d.run(ctx, x, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return metier.Result{}, &metier.Suspended{}
	case err != nil:
		return d.refused(x, c, err), nil
	case o.Ask != nil:
		return metier.Result{}, &metier.Suspended{Question: c.asks(*o.Ask)}
	}
	r := reportOf(c, o)
	x.Record(event.ChildEnded{ID: x.Call().ID, Run: c.ID, Code: r.Failure, Head: o.Head, Usage: o.Usage, Denied: o.Denied, Served: o.Served})
	return r.result()
}

// run runs the child on as long as what it asks was answered for the session.
func (d *delegate) run(ctx context.Context, x *metier.ToolContext, c Child) (Outcome, error) {
	const most = 100 // questions of one child that were answered before
	for range most {
		c.Answers = x.Answers()
		o, err := d.Runner.Run(ctx, c)
		if err != nil || o.Ask == nil || !wide(x.Answers()[o.Ask.Binds]) {
			return o, err
		}
	}
	return Outcome{}, &metier.Error{Op: "run", Kind: metier.Internal, Code: "subagent_stuck", Err: fmt.Errorf("the subagent asks the same question again after %d answers", most)}
}

// asks is a question of the child as its parent asks it: what it says stands in
// the child's record and nowhere else.
func (c Child) asks(q policy.Question) *policy.Question {
	q.ID, q.Child = AskID(c.ID, q.ChildCall, q.ID), c.ID
	q.Text = fmt.Sprintf("a subagent asks for a call of its own\nsubagent: %s\nrecord: children/%s\ncall: %s", c.Profile.Name, c.ID, q.ChildCall)
	return &q
}

// begin are the skills a child begins with: the profile's, those that were
// asked for and, where the setting inherit is all, its parent's. It fails if an ask rule covers one of
// the parent's, and its files changed: the call's questions are about those that it names.
func (d *delegate) begin(ctx context.Context, x *metier.ToolContext, c Child) ([]string, error) {
	out := slices.Clone(c.Profile.Skills)
	add := func(n string) {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, n := range c.Skills {
		add(n)
	}
	if d.Inherit == settings.InheritAll {
		for _, a := range x.Active() {
			sk, _, err := x.Session().Entry(ctx, a.ID, "")
			if err == nil && !slices.Contains(out, a.Name) && !slices.Contains(out, a.ID) {
				err = x.Approved(sk)
			}
			if metier.CodeOf(err) == "skill_drifted" {
				return nil, err
			}
			add(a.Name)
		}
	}
	if out == nil {
		out = []string{}
	}
	return out, nil
}

// refused is the result of a child that did not come about or cannot be read.
// What is wrong with a record is the operator's matter, not the model's: the
// parent's record has its code.
func (d *delegate) refused(x *metier.ToolContext, c Child, err error) metier.Result {
	if Told(err) {
		return metier.Failure(err)
	}
	x.Record(event.Note{Code: metier.CodeOf(err), On: x.Call().ID})
	return metier.Failure(&metier.Error{Op: OpDelegate, Kind: metier.Unavailable, Code: codeUnusable, Hint: "do the work yourself, or ask again in another call",
		Err: fmt.Errorf("subagent %s could not run, or its record cannot be read (%s)", c.ID, metier.CodeOf(err))})
}

// codeUnusable is the code of a call whose child could not be run, or whose
// record cannot be read: what it did is not known.
const codeUnusable = "subagent_unusable"
