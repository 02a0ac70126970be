package subagent

import (
	"context"
	"encoding/json"
	"slices"

	"metier"
	"metier/policy"
	"metier/settings"
)

// forks stands over the tool load_skill: a skill with "context: fork" runs as a
// child of the profile that its field agent names, where that may start, else of
// the default one, and the caller is given the child's report.
type forks struct{ d *delegate }

func (forks) Spec(context.Context, *metier.Session) (metier.Spec, bool) { return metier.Spec{}, false }
func (forks) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{}, metier.InvalidArguments("this is not a tool")
}
func (forks) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	return metier.Result{}, metier.InvalidArguments("this is not a tool")
}

// Over puts a loader in the place of load_skill.
func (f forks) Over(canonical string, old metier.Tool) metier.Tool {
	if canonical != settings.ToolLoadSkill {
		return nil
	}
	return loader{old, f.d}
}

// loader is load_skill where some skills run as children.
type loader struct {
	metier.Tool
	d *delegate
}

// forkContext is the value of the frontmatter field context that asks for a child.
const forkContext = "fork"

// child is what a call of load_skill runs, where the skill it names is one that
// forks and its profile may start.
func (l loader) child(ctx context.Context, s *metier.Session, raw json.RawMessage) (Child, *policy.Subject, bool) {
	var a struct {
		Name string `json:"name"`
		File string `json:"file_path"`
	}
	if json.Unmarshal(raw, &a) != nil || a.Name == "" || a.File != "" {
		return Child{}, nil, false
	}
	sk, told, err := s.Entry(ctx, a.Name, "")
	if err != nil || !told || sk.Head.Front.Context != forkContext {
		return Child{}, nil, false
	}
	p, may := l.d.takes(sk.Head.Front.Agent, sk)
	if !may {
		p, may = l.d.takes(Default, sk)
	}
	if !may {
		return Child{}, nil, false
	}
	if slices.ContainsFunc(s.State().Active, func(a metier.Activation) bool { return a.SkillID == sk.ID.String() }) {
		return Child{}, nil, false // it is the child that asks again
	}
	sub := sk.Subject()
	return Child{Profile: p, Task: "Do what the skill " + sk.Name + " says, and report the result.", Skills: []string{sk.ID.String()}}, &sub, true
}

// takes finds a profile that may start and lets a child load the skill.
func (d *delegate) takes(profile string, sk metier.Skill) (Profile, bool) {
	p, known := Find(d.Profiles, profile)
	return p, known && slices.Contains(d.Allowed, p.Name) && p.Lets(sk.ID.String(), sk.Name)
}

func (l loader) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	f, err := l.Tool.Facts(ctx, s, raw)
	if err != nil {
		return f, err
	}
	f.Within = l.d.Within
	if c, sub, is := l.child(ctx, s, raw); is {
		f.Effect, f.Profile, f.Skill = policy.SideEffect, c.Profile.Name, sub
	}
	return f, nil
}

func (l loader) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	c, _, is := l.child(ctx, x.Session(), x.Call().Args)
	if !is {
		return l.Tool.Invoke(ctx, x)
	}
	return l.d.spawn(ctx, x, c)
}

// Spawns reports whether a call is a run of its own, for a driver: of
// delegate_task always, of load_skill where its skill forks.
func Spawns(ctx context.Context, s *metier.Session, tools []metier.Tool) func(tool string, args json.RawMessage) bool {
	i := slices.IndexFunc(tools, func(t metier.Tool) bool { _, is := t.(forks); return is })
	if i < 0 {
		return nil
	}
	l := loader{d: tools[i].(forks).d}
	return func(tool string, args json.RawMessage) bool {
		if tool == settings.ToolLoadSkill {
			_, _, is := l.child(ctx, s, args)
			return is
		}
		return tool == settings.ToolDelegateTask
	}
}
