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

	"metier"
	"metier/agent"
	"metier/config"
	"metier/engine"
	"metier/internal/namedfile"
	"metier/policy"
	"metier/settings"
)

// readIn reads standard input until it ends or an interrupt arrives.
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

// promptText finds the task.
func (a *app) promptText(ctx context.Context, f runFlags, ph config.Phase) (string, error) {
	text, file := f.prompt, f.promptFile
	if ph.Prompt != "" || ph.PromptFile != "" {
		text, file = ph.Prompt, ph.PromptFile
	}
	const most = engine.MaxPrompt
	if text != "" && file != "" {
		return "", wrong("usage", "omit one of them", "--prompt and --prompt-file cannot be combined")
	}
	if file == "-" {
		b, err := a.readIn(ctx, most+1)
		if err != nil {
			return "", fmt.Errorf("read the task from standard input: %w", err)
		}
		text = string(b)
	} else if file != "" {
		b, err := a.engine().ReadInput(file, most, f.workspace)
		if _, long := errors.AsType[namedfile.TooLong](err); long {
			return "", wrong("prompt_too_large", "move long content to files in the workspace, and refer to them in the task", "the task: %w", err)
		}
		if err != nil {
			return "", wrong("prompt_unreadable", "specify the path to a text file", "read the task: %w", err)
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		switch {
		case file == "-":
			return "", wrong("usage", "write the task to standard input", "no task was given: standard input is empty")
		case file != "":
			return "", wrong("usage", "write the task into the file", "no task was given: %s is empty", file)
		case f.file != "":
			return "", wrong("usage", "set prompt in the file, or specify the task with --prompt", "no task was given: the run file %s has no prompt", f.file)
		}
	}
	return text, nil
}

// mergeFile sets flags that were not given from the run file.
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

func (a *app) batch(mode string) (bool, error) {
	switch mode {
	case "":
		return !a.asks(), nil
	case "operator":
		return false, nil
	case "batch":
		return true, nil
	}
	return false, metier.Fieldf(metier.Invalid, "Request.Batch", "usage", "modes: operator, batch", "%q is not a valid value for Request.Batch", mode)
}

// flagLayers returns the settings of the run file and of the flags.
func (a *app) flagLayers(f runFlags, rf config.RunFile) ([]settings.Layer, error) {
	var out []settings.Layer
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
			return nil, wrong("usage", "modes: "+strings.Join(enforcementModes, ", "), "%q is not a valid value for --enforcement-mode", f.enforcement)
		}
		l.Values["enforcement_mode"], l.Name = f.enforcement, "flags"
	}
	if f.target != "" {
		l.Values["script_target"], l.Name = f.target, "flags"
	}
	if err := engine.CheckDrift(f.onDrift); err != nil {
		return nil, err
	}
	if f.onDrift != "" {
		l.Values["drift_batch"], l.Values["drift_interactive"] = f.onDrift, f.onDrift
	}
	return append(out, l), nil
}

// fileRequest is a request that a run file can be part of.
type fileRequest struct {
	engine.Request
	keys map[string]fileKey // fields that the run file sets
}

// located adds the key of the run file that an error is about, and its line. The text then names the
// key instead of the flag.
func (q fileRequest) located(err error) error {
	e, ok := errors.AsType[*metier.Error](err)
	if !ok || q.keys[e.Field].key == "" {
		return err
	}
	k := q.keys[e.Field]
	with := *e
	with.Field, with.Hint = "", strings.ReplaceAll(e.Hint, e.Field, k.key) // no flag set it
	if e.Err != nil {
		with.Err = keyError{e.Err, strings.NewReplacer(e.Field, k.key)}
	}
	return fmt.Errorf("%s: %w", k.where, &with)
}

// keyError is an error whose text names a key of a run file.
type keyError struct {
	error
	names *strings.Replacer
}

func (e keyError) Error() string { return e.names.Replace(e.error.Error()) }
func (e keyError) Unwrap() error { return e.error }

// fileKey is a key of a run file, and where it is, as in errors.
type fileKey struct{ key, where string }

// fileKeys returns the fields that a phase or the run file sets rather than the flags asked. phase is
// the index of the phase, or -1 if the file has none.
func fileKeys(asked runFlags, rf config.RunFile, phase int) map[string]fileKey {
	out := map[string]fileKey{}
	for _, k := range []struct {
		field, key string
		flag       bool
	}{
		{"Request.Model", "model", asked.model != ""},
		{"Request.Profile", "profile", asked.profile != ""},
		{"Request.Tools", "allow_tools", len(asked.allowTools) > 0},
		{"Request.Hosts", "allow_hosts", len(asked.hosts) > 0},
		{"Request.Mode", "mode", asked.mode != ""},
		{"Request.Workspace", "workspace", asked.workspace != ""},
		{"Request.Cwd", "cwd", asked.cwd != ""},
		{"Request.MaxTurns", "max_turns", asked.maxTurns != 0},
		{"Request.MaxTokens", "max_tokens", asked.maxTokens != 0},
		{"Request.Batch", "output_mode", asked.outputMode != ""},
		{"ResumeOptions.OnDrift", "on_drift", asked.onDrift != ""},
		{"Request.Model", "script", asked.model != ""}, // used if there is no model
	} {
		if _, taken := out[k.field]; taken {
			continue
		}
		if line := rf.Line(phase, k.key); phase >= 0 && line > 0 && !k.flag {
			out[k.field] = fileKey{k.key, fmt.Sprintf("%s of phase %q in %s:%d", k.key, rf.Phases[phase].Name, asked.file, line)}
		} else if line := rf.Line(-1, k.key); line > 0 && !k.flag {
			out[k.field] = fileKey{k.key, fmt.Sprintf("%s in %s:%d", k.key, asked.file, line)}
		}
	}
	return out
}

// requests converts flags and the run file into one request per phase.
func (a *app) requests(ctx context.Context, f runFlags) (_ []fileRequest, resultJSON string, err error) {
	asked := f
	rf, err := a.mergeFile(&f)
	if err != nil {
		return nil, "", err
	}
	phases := rf.Phases
	if len(phases) == 0 {
		phases = []config.Phase{{}}
	} else if asked.prompt != "" || asked.promptFile != "" || len(asked.skills) > 0 {
		return nil, "", wrong("usage", "set prompt and skills in the phases of the run file", "--prompt, --prompt-file, and --skill cannot be combined with a run file that has phases")
	}
	var out []fileRequest
	for i, ph := range phases {
		if len(rf.Phases) == 0 {
			i = -1
		}
		q := fileRequest{keys: fileKeys(asked, rf, i)}
		if err := phaseFlags(asked, ph); err != nil {
			return nil, "", err
		}
		if q.Request, err = a.request(ctx, f, rf, ph); err != nil {
			return nil, "", q.located(err)
		}
		for _, later := range phases[max(i, 0)+1:] {
			q.Later = append(q.Later, later.Name)
		}
		q.MaxTurns = cmp.Or(asked.maxTurns, q.MaxTurns)
		out = append(out, q)
	}
	return out, f.resultJSON, nil
}

// phaseFlags refuses flags that would undo what a phase says about its tools.
func phaseFlags(asked runFlags, ph config.Phase) error {
	key, flag := "allow_tools", "--allow-tool"
	if ph.AllowTools == nil || len(asked.allowTools) == 0 {
		key, flag = "mode", "--mode"
		if ph.Mode == "" || asked.mode == "" {
			return nil
		}
	}
	return wrong("usage", "omit the flag, or change the phase in the run file", "%s cannot be combined with the phase %q, which sets %s", flag, ph.Name, key)
}

// request builds the request of a phase from the flags, the run file, and the phase.
func (a *app) request(ctx context.Context, f runFlags, rf config.RunFile, ph config.Phase) (q engine.Request, err error) {
	q = engine.Request{Surface: surface, Workspace: f.workspace, Cwd: f.cwd, Artifacts: f.artifacts, Roots: f.roots, Harnesses: f.harness,
		Skills: slices.Concat(f.skills, ph.Skills), Deny: f.deny, Profile: f.profile, Model: cmp.Or(f.model, ph.Model, rf.Model), Script: cmp.Or(ph.Script, rf.Script),
		PromptRole: policy.Role(f.promptRole), Mode: cmp.Or(ph.Mode, f.mode), MaxTurns: cmp.Or(ph.MaxTurns, f.maxTurns), MaxTokens: f.maxTokens, Park: f.park, Phase: ph.Name,
		Tools: f.allowTools, Servers: f.mcpConfig, Subagents: f.subagents.profiles, SubagentDirs: f.subagents.dirs, Browser: f.browser.request(), NoModel: f.dryRun,
		Sources: append(rf.Files(), f.file, f.outputSchema)}
	f.programFlags.request(&q)
	if ph.AllowTools != nil {
		q.Tools = ph.AllowTools
	}
	if f.promptFile != "-" {
		q.Sources = append(q.Sources, f.promptFile)
	}
	if q.Layers, err = a.flagLayers(f, rf); err != nil {
		return q, err
	}
	for _, m := range f.mounts {
		mount, err := a.parseMount(m)
		if err != nil {
			return q, err
		}
		q.Mounts = append(q.Mounts, mount)
	}
	if q.Batch, err = a.batch(f.outputMode); err != nil {
		return q, err
	}
	if q.Prompt, err = a.promptText(ctx, f, ph); err != nil {
		return q, err
	}
	if f.outputSchema != "" {
		q.Output, err = a.schema(f.outputSchema, f.workspace)
	}
	return q, err
}

func (a *app) schema(file, workspace string) (json.RawMessage, error) {
	b, err := a.engine().ReadInput(file, 1<<20, workspace)
	if err != nil {
		return nil, wrong("schema_unreadable", "specify the path to a JSON Schema", "read the output schema: %w", err)
	}
	if err := agent.CheckSchema(b); err != nil {
		return nil, wrong("schema_invalid", "use a valid JSON Schema (draft 2020-12)", "%s: %w", file, err)
	}
	return b, nil
}

// enforcementModes are the values of --enforcement-mode, least strict first.
var enforcementModes = []string{string(policy.Disabled), string(policy.Observe), string(policy.EnforceExplicit), string(policy.EnforceStrict)}
