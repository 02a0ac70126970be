package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/agent"
	"metier/config"
	"metier/internal/confine"
	"metier/internal/namedfile"
	"metier/mcp/host"
	"metier/model/provider"
	"metier/policy"
	"metier/settings"
)

// planned is one run that is ready to begin.
type planned struct {
	launch     launch
	op         config.Operator
	settings   settings.Settings
	origins    json.RawMessage
	model      provider.Model
	resultJSON string
}

// plan turns flags, run file and configuration into one launch per phase.
func (a *app) plan(ctx context.Context, f runFlags, op config.Operator) ([]planned, error) {
	asked := f
	rf, err := a.mergeFile(&f)
	if err != nil {
		return nil, err
	}
	phases := rf.Phases
	if len(phases) == 0 {
		phases = []config.Phase{{}}
	} else if asked.prompt != "" || asked.promptFile != "" || len(asked.skills) > 0 {
		return nil, wrong("usage", "give prompt and skills in the phases of the run file", "--prompt, --prompt-file and --skill do not go with a run file that has phases")
	}
	var out []planned
	for _, ph := range phases {
		p, err := a.planPhase(ctx, f, rf, op, ph)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// mergeFile fills flags that were not given from the run file.
func (a *app) mergeFile(f *runFlags) (config.RunFile, error) {
	var rf config.RunFile
	if f.file == "" {
		return rf, nil
	}
	rf, err := config.ReadRunFile(a.env.Path(f.file))
	if err != nil {
		return rf, err
	}
	text := func(flag *string, file string) {
		if *flag == "" {
			*flag = file
		}
	}
	for _, p := range []struct {
		flag *string
		file string
	}{{&f.workspace, rf.Workspace}, {&f.cwd, rf.Cwd}, {&f.profile, rf.Profile}, {&f.mode, rf.Mode}, {&f.outputMode, rf.OutputMode},
		{&f.outputSchema, rf.OutputSchema}, {&f.resultJSON, rf.ResultJSON}, {&f.onDrift, rf.OnDrift}, {&f.artifacts, rf.Artifacts}} {
		text(p.flag, p.file)
	}
	if f.prompt == "" && f.promptFile == "" {
		f.prompt, f.promptFile = rf.Prompt, rf.PromptFile
	}
	list := func(flag *[]string, file []string) {
		if len(*flag) == 0 {
			*flag = file
		}
	}
	list(&f.mounts, rf.Mounts)
	list(&f.roots, rf.SkillsRoots)
	list(&f.harness, rf.Harness)
	list(&f.skills, rf.Skills)
	list(&f.allowTools, rf.AllowTools)
	list(&f.scripts, rf.Scripts)
	list(&f.hosts, rf.Hosts)
	list(&f.subagents.profiles, rf.Subagents)
	list(&f.subagents.dirs, rf.SubagentDirs)
	f.noCatalog = f.noCatalog || rf.NoCatalog
	if f.maxTurns == 0 {
		f.maxTurns = rf.MaxTurns
	}
	if f.maxTokens == 0 {
		f.maxTokens = rf.MaxTokens
	}
	return rf, nil
}

func (a *app) planPhase(ctx context.Context, f runFlags, rf config.RunFile, op config.Operator, ph config.Phase) (planned, error) {
	var p planned
	ws, err := a.enter(ctx, f.workspace)
	if err != nil {
		return p, err
	}
	layers, err := a.flagLayers(f, rf)
	if err != nil {
		return p, err
	}
	set, origins, denied, err := op.Resolve(a.env, f.profile, ws, layers...)
	if err != nil {
		return p, err
	}
	p.op = op
	p.settings, p.origins, p.resultJSON = set, settings.Snapshot(set, origins), f.resultJSON
	l := launch{Workspace: ws, Cwd: f.cwd, Skills: dedupe(append(slices.Clone(f.skills), ph.Skills...)), Phase: ph.Name,
		Denied: slices.Concat(op.Deny, f.deny, denied), Park: f.park, Settings: values(origins)}
	for _, m := range f.mounts {
		mount, err := a.parseMount(m)
		if err != nil {
			return p, err
		}
		l.Mounts = append(l.Mounts, mount)
	}
	if l.Roots, err = a.finder().Find(f.roots, f.harness, op.Skills, set.Discover, ws, l.Mounts); err != nil {
		return p, err
	}
	if len(l.Roots) == 0 && slices.ContainsFunc(l.Skills, ofRoot) {
		return p, wrong("usage", "name the folder of skills with --skills-root", "--skill needs --skills-root")
	}
	if l.Batch, err = a.batch(f.outputMode); err != nil {
		return p, err
	}
	if l.Prompt, err = a.promptText(ctx, f, ph); err != nil {
		return p, err
	}
	l.PromptRole = policy.Role(cmp.Or(f.promptRole, string(set.Policy.SlotRole)))
	if !slices.Contains([]policy.Role{policy.DirectCommand, policy.Context, policy.Quote}, l.PromptRole) {
		return p, wrong("usage", "roles: direct-command, context, quote", "--prompt-slot-role %q is not a role", l.PromptRole)
	}
	if l.Spec, err = a.spec(f, ph); err != nil {
		return p, err
	}
	if f.granted, err = a.planPrograms(&l, f.programFlags, op); err != nil {
		return p, err
	}
	set.Tools.Default = harnessTools(set.Tools.Default, l.Roots)
	if l.Tools, err = a.grantedTools(f, ph, op, set, l.Spec.Mode); err != nil {
		return p, err
	}
	if err := a.planServers(&l, f, op); err != nil {
		return p, err
	}
	if err := a.planSubagents(&l, f.subagents, op); err != nil {
		return p, err
	}
	if err := errors.Join(checkTarget(set.Exec.Target), a.planBrowser(&l, f.browser, op)); err != nil {
		return p, err
	}
	if p.model, err = provider.Choose(ctx, cmp.Or(ph.Script, rf.Script), op.Models(a.env), cmp.Or(ph.Model, f.model, rf.Model), a.env.Get("METIER_MODEL"), op.Model); err != nil {
		if code := problemOf(err).code; !f.dryRun || code != "no_model" && code != "no_key" {
			return p, err
		}
		p.model = provider.Model{Model: unasked{}, ID: cmp.Or(ph.Model, f.model, rf.Model, a.env.Get("METIER_MODEL"), op.Model, modelNone), Note: err.Error() + ": " + problemOf(err).hint}
	}
	l.Model, l.Spec.Model = p.model.ID, p.model.ID
	if p.model.Script != "" {
		l.Model = "scripted:" + p.model.Script
	}
	l.Spec.Price = op.Price(p.model.ID)
	if l.Artifacts, err = a.runsRoot(f.artifacts, op, ws); err != nil {
		return p, err
	}
	if confine.RealPathOfExisting(l.Artifacts) == ws {
		return p, wrong("artifact_root_is_workspace", "give a folder of its own with --artifact-root", "the records would lie open in the workspace %s", ws)
	}
	for _, s := range append(rf.Files(), f.file, p.model.Script, f.promptFile, f.outputSchema) {
		if s != "" && s != "-" {
			l.Sources = append(l.Sources, a.env.Path(s))
		}
	}
	p.launch = l
	return p, nil
}

// flagLayers are the settings of the run file and of the flags.
func (a *app) flagLayers(f runFlags, rf config.RunFile) ([]settings.Layer, error) {
	out := []settings.Layer{harnessLayer(f.harness)}
	if len(rf.Set) > 0 {
		out = append(out, settings.Layer{Name: f.file, Operator: true, Values: rf.Set})
	}
	l, err := setFlag(f.set)
	if err != nil {
		return nil, err
	}
	if len(f.hosts) > 0 && l.Values["script_network"] == "" {
		l.Values["script_network"], l.Name = "tiered", "flags" // naming a host is what it is for
	}
	if f.noCatalog {
		l.Values["catalog_place"], l.Name = "none", "flags"
	}
	if f.enforcement != "" {
		if !slices.Contains(enforcementModes, f.enforcement) {
			return nil, wrong("usage", "modes: "+strings.Join(enforcementModes, ", "), "--enforcement-mode %q is not a mode", f.enforcement)
		}
		l.Values["enforcement_mode"], l.Name = f.enforcement, "flags"
	}
	if f.target != "" {
		l.Values["script_target"], l.Name = f.target, "flags"
	}
	if err := checkDriftFlag(f.onDrift); err != nil {
		return nil, err
	}
	if f.onDrift != "" {
		l.Values["drift_batch"], l.Values["drift_interactive"] = f.onDrift, f.onDrift
	}
	return append(out, l), nil
}

// enforcementModes are the values of --enforcement-mode, laxest first.
var enforcementModes = []string{string(policy.Disabled), string(policy.Observe), string(policy.EnforceExplicit), string(policy.EnforceStrict)}

func checkDriftFlag(v string) error {
	if v != "" && !slices.Contains([]string{"fail", "warn", "reload", "ignore"}, v) {
		return wrong("usage", "choices: fail, warn, reload, ignore", "--on-drift %q is not a choice", v)
	}
	return nil
}

func values(o settings.Origins) map[string]string {
	out := map[string]string{}
	for k, v := range o {
		out[k] = v.Value
	}
	return out
}

func (a *app) batch(mode string) (bool, error) {
	switch mode {
	case "":
		return !a.asks(), nil
	case "operator":
		return false, nil
	case "batch":
		return true, nil
	}
	return false, wrong("usage", "modes: operator, batch", "--output-mode %q is not a mode", mode)
}

// promptText finds the task.
func (a *app) promptText(ctx context.Context, f runFlags, ph config.Phase) (string, error) {
	text, file := f.prompt, f.promptFile
	if ph.Prompt != "" || ph.PromptFile != "" {
		text, file = ph.Prompt, ph.PromptFile
	}
	const most = maxPrompt
	if text != "" && file != "" {
		return "", wrong("usage", "give one of them", "--prompt and --prompt-file do not go together")
	}
	if file == "-" {
		b, err := a.readIn(ctx, most+1)
		if err != nil {
			return "", fmt.Errorf("read the task from standard input: %w", err)
		}
		text = string(b)
	} else if file != "" {
		b, err := namedfile.Read(a.env.Path(file), most)
		if _, long := errors.AsType[namedfile.TooLong](err); long {
			return "", wrong("prompt_too_large", "put the material into files of the workspace and name them in the task", "the task: %w", err)
		}
		if err != nil {
			return "", wrong("prompt_unreadable", "give the path of a text file", "read the task: %w", err)
		}
		text = string(b)
	}
	if len(text) > most {
		return "", wrong("prompt_too_large", "put the material into files of the workspace and name them in the task", "the task is longer than %d bytes", most)
	}
	if !utf8.ValidString(text) {
		return "", wrong("prompt_not_text", "save it as UTF-8", "the task is not UTF-8 text")
	}
	if strings.TrimSpace(text) == "" {
		return "", wrong("usage", "give it with --prompt, --prompt-file or a run file", "there is no task")
	}
	return text, nil
}

// readIn reads standard input, until an interrupt comes.
func (a *app) readIn(ctx context.Context, most int64) ([]byte, error) {
	type read struct {
		b   []byte
		err error
	}
	ch := make(chan read, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(a.In, most))
		ch <- read{b, err}
	}()
	select {
	case r := <-ch:
		return r.b, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *app) spec(f runFlags, ph config.Phase) (agent.Spec, error) {
	s := agent.Spec{Mode: cmp.Or(ph.Mode, f.mode, agent.ModeChat), MaxTurns: f.maxTurns, MaxTokens: f.maxTokens}
	if ph.MaxTurns > 0 {
		s.MaxTurns = ph.MaxTurns
	}
	if !slices.Contains(agent.Modes(), s.Mode) {
		return s, wrong("usage", "modes: "+strings.Join(agent.Modes(), ", "), "--mode %q is not a mode", s.Mode)
	}
	if s.MaxTurns < 0 || s.MaxTokens < 0 {
		return s, wrong("usage", "give a positive number", "--max-turns and --max-tokens cannot be negative")
	}
	if f.outputSchema != "" {
		b, err := namedfile.Read(a.env.Path(f.outputSchema), maxSchema)
		if err != nil {
			return s, wrong("schema_unreadable", "give the path of a JSON schema", "read the output schema: %w", err)
		}
		if err := agent.CheckSchema(b); err != nil {
			return s, wrong("schema_invalid", "it has to be a JSON schema of draft 2020-12", "%s: %w", f.outputSchema, err)
		}
		s.Output = b
	}
	return s, nil
}

// toolsDefault stands for the profile's default tools among named ones, so that
// one more does not take a list of all.
const toolsDefault = "default"

// grantedTools are exactly the named tools, or the profile's default set
// (ruling 20); in plan mode those of them that only read.
func (a *app) grantedTools(f runFlags, ph config.Phase, op config.Operator, s settings.Settings, mode string) ([]string, error) {
	named := f.allowTools
	if ph.AllowTools != nil {
		named = ph.AllowTools
	}
	if named == nil {
		named = op.Tools
	}
	if named == nil {
		named = s.Tools.Default
	}
	if i := slices.Index(named, toolsDefault); i >= 0 {
		named = slices.Concat(named[:i], s.Tools.Default, named[i+1:])
	}
	alias := map[string]string{s.Tools.Load: settings.ToolLoadSkill, s.Tools.Resource: settings.ToolReadSkillResource,
		s.Tools.Search: settings.ToolSearchSkills, s.Tools.List: settings.ToolListSkills, s.Tools.Script: settings.ToolRunSkillScript}
	out := []string{}
	for _, n := range slices.Concat(named, f.granted) {
		if c, ok := alias[n]; ok && n != "" {
			n = c
		}
		effect, known := config.ToolEffect(n)
		if !known {
			if strings.HasPrefix(n, host.Prefix) {
				out = append(out, n) // which tools it means is known when the servers answer: see job.connect
				continue
			}
			if slices.Contains(s.Tools.Default, n) {
				continue // named by a profile for a later version
			}
			return nil, wrong("tool_unknown", "tools: "+strings.Join(config.ToolNames(), ", ")+"; "+toolsDefault+" is the profile's set", "there is no tool %q", n)
		}
		if n == settings.ToolRunSkillScript && s.NoScripts() {
			return nil, wrong("scripts_off", "choose another with --profile, or set scripts and tool_script", "this profile runs no scripts of skills")
		}
		if mode == agent.ModePlan && effect != policy.Read || slices.Contains(out, n) {
			continue
		}
		out = append(out, n)
	}
	return out, nil
}

func dedupe(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
