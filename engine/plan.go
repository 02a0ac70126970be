package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/mcp/host"
	"metier/model/provider"
	"metier/policy"
	"metier/settings"
	"metier/skillroots"
)

// Plan resolves a request. It changes nothing except what a killed run left in the workspace, and the
// list of the files that commands were given.
func (e *Engine) Plan(ctx context.Context, q Request) (*Plan, error) {
	p, err := e.resolve(ctx, q)
	if err == nil {
		err = readable(p.launch.Roots)
	}
	if err != nil {
		return nil, err
	}
	l, set := &p.launch, p.settings
	if len(l.Roots) == 0 && slices.ContainsFunc(l.Skills, OfRoot) {
		return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "usage", "specify the folder of skills with Request.Roots", "Request.Skills needs Request.Roots")
	}
	if err := checkPrompt(q.Prompt); err != nil {
		return nil, err
	}
	l.Prompt, l.Batch, l.Park, l.Confined = q.Prompt, q.Batch, q.Park, q.Confined
	if l.PromptRole, err = promptRole(q.PromptRole, set); err != nil {
		return nil, err
	}
	if l.Spec, err = spec(q); err != nil {
		return nil, err
	}
	granted, err := e.planPrograms(ctx, l, q, p.op)
	if err != nil {
		return nil, err
	}
	set.Tools.Default = harnessTools(set.Tools.Default, l.Roots)
	if l.Tools, err = grantedTools(q.Tools, granted, p.op, set, l.Spec.Mode); err != nil {
		return nil, err
	}
	if err := p.grantCustom(ctx); err != nil {
		return nil, err
	}
	if err := e.planServers(l, q, p.op); err != nil {
		return nil, err
	}
	if err := e.planSubagents(l, q, p.op); err != nil {
		return nil, err
	}
	if err := errors.Join(checkTarget(set.Exec.Target), e.planBrowser(l, q.Browser, p.op)); err != nil {
		return nil, err
	}
	if err := e.planModel(ctx, p, q); err != nil {
		return nil, err
	}
	if err := e.planArtifacts(p, q); err != nil {
		return nil, err
	}
	if confine.RealPathOfExisting(l.Artifacts) == l.Workspace {
		return nil, metier.Fieldf(metier.Invalid, "Request.Artifacts", "artifact_root_is_workspace", "choose a separate folder with Request.Artifacts", "the records would be readable in the workspace %s", l.Workspace)
	}
	for _, s := range append(slices.Clone(q.Sources), p.model.Script) {
		if s != "" {
			l.Sources = append(l.Sources, e.Env.Path(s))
		}
	}
	e.noteSources(*l, p.op)
	return p, nil
}

// PlanTools resolves a request of a program that calls tools itself, without a model and a task.
// granted are the tools granted by policy files.
func (e *Engine) PlanTools(ctx context.Context, q Request) (p *Plan, granted []string, err error) {
	if p, err = e.resolve(ctx, q); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(readable(p.launch.Roots), e.planArtifacts(p, q)); err != nil {
		return nil, nil, err
	}
	l := &p.launch
	l.Model, l.Spec, l.PromptRole, l.Batch, l.Confined, l.Tools = modelNone, agent.Spec{Mode: agent.ModeChat}, q.PromptRole, q.Batch, q.Confined, q.Tools
	if granted, err = e.planPrograms(ctx, l, q, p.op); err == nil {
		e.noteSources(*l, p.op)
	}
	return p, granted, err
}

// readable fails if there is a root that cannot be read: a run must not give the names of its
// skills to others.
func readable(roots []skillroots.Root) error {
	for _, r := range roots {
		if r.Unreadable != nil {
			return r.Unreadable
		}
	}
	return nil
}

// resolve finds the workspace, its settings, and its roots of skills.
func (e *Engine) resolve(ctx context.Context, q Request) (*Plan, error) {
	op, err := config.Load(e.Env)
	if err != nil {
		return nil, err
	}
	ws, err := e.Enter(ctx, q.Workspace)
	if err != nil {
		return nil, err
	}
	set, origins, denied, err := op.Resolve(e.Env, q.Profile, ws, append([]settings.Layer{harnessLayer(q.Harnesses)}, q.Layers...)...)
	if err != nil {
		err = settingsFault(err)
		return nil, ofField(err, "Request.Profile", q.Profile != "" && metier.CodeOf(err) == settings.CodeProfile)
	}
	l := Launch{Workspace: ws, Cwd: q.Cwd, Mounts: q.Mounts, Skills: distinct.Of(q.Skills), Phase: q.Phase, Later: q.Later,
		Denied: slices.Concat(op.Deny, q.Deny, denied), Settings: values(origins), Operator: set.OperatorValues(), Closed: e.Env.Paths(q.Closed)}
	if l.Mounts, err = e.settleMounts(ws, q.Mounts, false); err != nil {
		return nil, err
	}
	if l.Roots, err = e.Finder().Find(q.Roots, q.Harnesses, op.Skills, set, ws, l.Mounts); err != nil {
		return nil, err
	}
	return &Plan{launch: l, op: op, settings: set, origins: settings.Snapshot(set, origins), setBy: origins, surface: q.Surface, custom: q.Custom}, nil
}

func (e *Engine) planArtifacts(p *Plan, q Request) (err error) {
	p.launch.Artifacts, err = e.RunsRoot(q.Artifacts, p.op, p.launch.Workspace)
	if err != nil {
		return err
	}
	if info, err := os.Stat(p.launch.Artifacts); err == nil && !info.IsDir() {
		return metier.Fieldf(metier.Invalid, "Request.Artifacts", "artifact_root_invalid", "choose a folder with Request.Artifacts", "the path for records is not a folder: %s", p.launch.Artifacts)
	}
	return nil
}

// planModel chooses and opens the model.
func (e *Engine) planModel(ctx context.Context, p *Plan, q Request) (err error) {
	want, from := q.Model, ""
	if want == "" {
		want, from = p.op.DefaultModel(e.Env)
	}
	if q.Custom.Model == nil {
		p.model, err = provider.Choose(ctx, q.Script, p.op.Models(e.Env), want)
	}
	if err != nil && from != "" {
		err = fmt.Errorf("%s: %w", from, err)
	}
	if code := metier.CodeOf(err); q.Custom.Model != nil {
		p.model = provider.Model{Model: q.Custom.Model, ID: cmp.Or(q.Model, customModel)}
	} else if err != nil && q.NoModel && (code == "no_model" || code == "no_key") {
		p.model = provider.Model{Model: unasked{}, ID: cmp.Or(want, modelNone), Note: err.Error() + ": " + hintOf(err)}
	} else if err != nil {
		return ofField(err, "Request.Model", q.Model != "")
	}
	l := &p.launch
	l.Model, l.Spec.Model = p.model.ID, p.model.ID
	if p.model.Script != "" {
		l.Model = provider.Scripted + p.model.Script
	}
	l.Spec.Price = p.op.Price(p.model.ID)
	return nil
}

// ofField names the field of the request that an error is about, if the field was set.
func ofField(err error, field string, set bool) error {
	e, ok := errors.AsType[*metier.Error](err)
	if !ok || !set || e.Field != "" {
		return err
	}
	with := *e
	with.Field = field
	return &with
}

// customModel is the name of a model supplied by an embedding program.
const customModel = "custom:model"

// grantCustom grants the tools supplied by an embedding program. In plan mode, it leaves out tools
// that do more than read.
func (p *Plan) grantCustom(ctx context.Context) error {
	specs, err := p.custom.specs(ctx)
	if err != nil {
		return err
	}
	for _, s := range specs {
		name := cmp.Or(s.Canonical, s.Name)
		if slices.Contains(p.launch.Tools, name) {
			return metier.Fieldf(metier.Invalid, "Request.Custom", "tool_name_taken", "give each tool its own name", "another tool already has the name %q", name)
		}
		if p.launch.Spec.Mode != agent.ModePlan || s.Effect == policy.Read {
			p.launch.Tools = append(p.launch.Tools, name)
		}
	}
	return nil
}

// specs returns the specs of the custom tools, in order.
func (c Custom) specs(ctx context.Context) ([]metier.Spec, error) {
	var out []metier.Spec
	for _, t := range c.Tools {
		if t == nil {
			return nil, metier.Fieldf(metier.Invalid, "Request.Custom", "tool_invalid", "check the error of metier.FuncTool", "a custom tool is nil")
		}
		s, _ := t.Spec(ctx, nil)
		name := cmp.Or(s.Canonical, s.Name)
		if strings.HasPrefix(name, host.Prefix) {
			return nil, metier.Fieldf(metier.Invalid, "Request.Custom", "tool_name_taken", "choose another name", "a custom tool cannot have the name %q, because names of tools of MCP servers start with %s", name, host.Prefix)
		}
		if _, taken := config.ToolEffect(name); taken || name == "" {
			return nil, metier.Fieldf(metier.Invalid, "Request.Custom", "tool_name_taken", "give each tool its own name", "a custom tool cannot have the name %q", name)
		}
		out = append(out, s)
	}
	return out, nil
}

func (c Custom) names(ctx context.Context) ([]string, error) {
	specs, err := c.specs(ctx)
	var out []string
	for _, s := range specs {
		out = append(out, cmp.Or(s.Canonical, s.Name))
	}
	return out, err
}

// absent returns the custom tools of a recorded run that c does not have.
func (c Custom) absent(ctx context.Context, recorded []string) ([]string, error) {
	names, err := c.names(ctx)
	return slices.DeleteFunc(slices.Clone(recorded), func(name string) bool {
		_, known := config.ToolEffect(name)
		return known || strings.HasPrefix(name, host.Prefix) || slices.Contains(names, name)
	}), err
}

func values(o settings.Origins) map[string]string {
	out := map[string]string{}
	for k, v := range o {
		out[k] = v.Value
	}
	return out
}

// MaxPrompt is the maximum size of a task, in bytes.
const MaxPrompt = 8 << 20

func checkPrompt(text string) error {
	if len(text) > MaxPrompt {
		return metier.Errorf(metier.Invalid, "prompt_too_large", "put the material into files in the workspace, and refer to them in the task", "the task is longer than %d bytes", MaxPrompt)
	}
	if !utf8.ValidString(text) {
		return metier.Errorf(metier.Invalid, "prompt_not_text", "save it as UTF-8", "the task is not UTF-8 text")
	}
	if strings.TrimSpace(text) == "" {
		return metier.Fieldf(metier.Invalid, "Request.Prompt", "usage", "set Request.Prompt, or prompt in a run file", "no task was given")
	}
	return nil
}

func promptRole(asked policy.Role, set settings.Settings) (policy.Role, error) {
	if asked == "" {
		asked = policy.Role(set.Policy.SlotRole)
	}
	if !slices.Contains([]policy.Role{policy.DirectCommand, policy.Context, policy.Quote}, asked) {
		return "", metier.Fieldf(metier.Invalid, "Request.PromptRole", "usage", "roles: direct-command, context, quote", "Request.PromptRole %q is not a role", asked)
	}
	return asked, nil
}

func spec(q Request) (agent.Spec, error) {
	s := agent.Spec{Mode: q.Mode, MaxTurns: q.MaxTurns, MaxTokens: q.MaxTokens, Output: q.Output}
	if s.Mode == "" {
		s.Mode = agent.ModeChat
	}
	if !slices.Contains(agent.Modes(), s.Mode) {
		return s, metier.Fieldf(metier.Invalid, "Request.Mode", "usage", "modes: "+strings.Join(agent.Modes(), ", "), "%q is not a valid value for Request.Mode", s.Mode)
	}
	if len(q.Output) > 0 {
		if err := agent.CheckSchema(q.Output); err != nil {
			return s, metier.Fieldf(metier.Invalid, "Request.Output", "schema_invalid", "use a JSON schema of draft 2020-12", "Request.Output: %w", err)
		}
	}
	return s, checkLimits(q.MaxTurns, q.MaxTokens)
}

// settingsFault gives an error of settings a kind.
func settingsFault(err error) error {
	e, ok := errors.AsType[*settings.Error](err)
	if !ok {
		return err
	}
	return metier.Errorf(metier.Invalid, e.Code, e.Hint(), "%w", err)
}

func checkLimits(turns int, tokens int64) error {
	field := "Request.MaxTurns"
	if turns >= 0 {
		field = "Request.MaxTokens"
	}
	if turns < 0 || tokens < 0 {
		return metier.Fieldf(metier.Invalid, field, "usage", "use a positive number, or 0 for the default", "%s cannot be negative", field)
	}
	return nil
}

// ToolsDefault represents the profile's default tools in a list of tool names, so that adding a
// tool does not require listing all of them.
const ToolsDefault = "default"

// grantedTools returns the named tools, or else the configured ones, or else the profile's
// defaults, and also those granted by policy files. In plan mode, it leaves out tools that do more
// than read.
func grantedTools(named, granted []string, op config.Operator, s settings.Settings, mode string) ([]string, error) {
	field := "Request.Tools"
	if named == nil {
		named, field = op.Tools, ""
	}
	if named == nil {
		named = s.Tools.Default
	}
	if i := slices.Index(named, ToolsDefault); i >= 0 {
		named = slices.Concat(named[:i], s.Tools.Default, named[i+1:])
	}
	out := []string{}
	for _, n := range slices.Concat(named, granted) {
		n = s.Tools.Canonical(n)
		effect, known := config.ToolEffect(n)
		switch {
		case !known && strings.HasPrefix(n, host.Prefix):
			out = append(out, n) // which tools it means is known when the servers answer: see Run.connect
			continue
		case !known && slices.Contains(s.Tools.Default, n):
			continue // named by a profile for a later version
		case !known:
			return nil, metier.Fieldf(metier.Invalid, field, "tool_unknown", "tools: "+strings.Join(config.ToolNames(), ", ")+"; "+ToolsDefault+" is the profile's set", "there is no tool %q", n)
		case n == settings.ToolRunSkillScript && s.NoScripts():
			return nil, metier.Fieldf(metier.Invalid, "Request.Profile", "scripts_off", "choose another profile with Request.Profile, or change the settings scripts and tool_script", "this profile does not run scripts of skills")
		case mode == agent.ModePlan && effect != policy.Read || slices.Contains(out, n):
			continue
		}
		out = append(out, n)
	}
	return out, nil
}
