package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/agent"
	"metier/internal/atomicfile"
	"metier/policy"
	"metier/run"
	"metier/settings"
)

// runFlags are the flags of `metier run`.
type runFlags struct {
	file         string
	workspace    string
	cwd          string
	mounts       []string
	roots        []string
	skills       []string
	profile      string
	set          []string
	noCatalog    bool
	allowTools   []string
	deny         []string
	model        string
	prompt       string
	promptFile   string
	mode         string
	outputMode   string
	outputSchema string
	resultJSON   string
	promptRole   string
	maxTurns     int
	maxTokens    int64
	artifacts    string
	onDrift      string
	dryRun       bool
	park         bool
	resume       string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "run [flags]",
		GroupID: "work",
		Short:   "Let an agent finish a task with skills, on the record",
		Long: `Run gives an agent a task, a workspace and skills, follows it to the end and
leaves a record of what it was told, read and did.

The answer goes to standard output, progress to standard error. A run that is
stopped or killed goes on with --resume.`,
		Example: `  metier run -f examples/quickstart/run.yaml
  metier run --skill report --prompt "Write the weekly report"
  metier run --output-mode batch --allow-tool read_file --prompt-file task.md
  metier run --resume latest`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runMain(c, f) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.file, "file", "f", "", "run file; flags win over what it says")
	fl.StringVar(&f.workspace, "workspace", "", "folder the agent works in (default: the current one)")
	fl.StringVar(&f.cwd, "cwd", "", "folder in the workspace that relative paths start at")
	fl.StringArrayVar(&f.mounts, "mount", nil, "another folder: name=NAME,source=DIR,target=/PATH,mode=ro|rw (repeatable)")
	fl.StringArrayVar(&f.roots, "skills-root", nil, "folder of skills, relative to the workspace (repeatable)")
	fl.StringArrayVar(&f.skills, "skill", nil, "skill to load before the task (repeatable, in order)")
	fl.StringVar(&f.profile, "profile", "", "set of settings, see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "one setting: name=value (repeatable)")
	fl.BoolVar(&f.noCatalog, "no-skill-catalog", false, "tell the model of no skills but the loaded ones")
	fl.StringArrayVar(&f.allowTools, "allow-tool", nil, "allow exactly this tool (repeatable; default: the profile's tools)")
	fl.StringArrayVar(&f.deny, "deny-skill", nil, "deny a skill, by name or ID (repeatable)")
	fl.StringVar(&f.model, "model", "", "provider:name, or scripted:FILE")
	fl.StringVar(&f.prompt, "prompt", "", "the task")
	fl.StringVar(&f.promptFile, "prompt-file", "", "file with the task, - for standard input")
	fl.StringVar(&f.mode, "mode", "", "chat, or plan: read only, answer with a plan (default chat)")
	fl.StringVar(&f.outputMode, "output-mode", "", "operator: a person is there; batch: nobody answers (default: operator in a terminal)")
	fl.StringVar(&f.outputSchema, "output-schema", "", "JSON schema the answer must fit")
	fl.StringVar(&f.resultJSON, "result-json", "", "file to write the result to")
	fl.StringVar(&f.promptRole, "prompt-slot-role", "", "role of the task: direct-command, context or quote")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "most turns (default 50)")
	fl.Int64Var(&f.maxTokens, "max-tokens", 0, "most tokens of the whole run (default: no limit)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "folder for the record (default: .metier/runs in the workspace)")
	fl.StringVar(&f.onDrift, "on-drift", "", "resume with changed skills: fail, warn, reload or ignore")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would run, ask no model")
	fl.BoolVar(&f.park, "park", false, "batch: leave questions open (exit 7) instead of answering no")
	fl.StringVar(&f.resume, "resume", "", "run to go on with: id, folder or 'latest'")
	a.completions(c)
	return c
}

func (a *app) runMain(c *cobra.Command, f runFlags) error {
	ctx := c.Context()
	if f.resume != "" {
		return a.resume(ctx, c, f)
	}
	op, err := a.operatorConfig()
	if err != nil {
		return err
	}
	plans, err := a.plan(ctx, c, f, op)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(ctx, plans)
	}
	base := a.runID()
	var results []result
	for _, p := range plans {
		id := base
		if p.launch.Phase != "" {
			id += "-" + safeID(p.launch.Phase)
			fmt.Fprintf(a.Err, "phase %s\n", printable(p.launch.Phase))
		}
		r, err := a.execute(ctx, p, id)
		if err != nil {
			return err
		}
		results = append(results, r)
		if r.Status != "done" {
			break
		}
	}
	return a.finishRun(ctx, f.resultJSON, plans[0].resultJSON, results)
}

// planned is one run that is ready to begin.
type planned struct {
	launch     launch
	settings   settings.Settings
	origins    json.RawMessage
	model      chosen
	resultJSON string
}

// plan turns flags, run file and configuration into one launch per phase.
func (a *app) plan(ctx context.Context, c *cobra.Command, f runFlags, op operator) ([]planned, error) {
	rf, err := a.mergeFile(&f)
	if err != nil {
		return nil, err
	}
	phases := rf.Phases
	if len(phases) == 0 {
		phases = []phase{{}}
	} else if f.prompt != "" || len(f.skills) > 0 {
		return nil, wrong("usage", "give prompt and skills in the phases of the run file", "--prompt and --skill do not go with a run file that has phases")
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
func (a *app) mergeFile(f *runFlags) (runFile, error) {
	var rf runFile
	if f.file == "" {
		return rf, nil
	}
	rf, err := readRunFile(a.path(f.file))
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
	list(&f.skills, rf.Skills)
	list(&f.allowTools, rf.AllowTools)
	f.noCatalog = f.noCatalog || rf.NoCatalog
	if f.maxTurns == 0 {
		f.maxTurns = rf.MaxTurns
	}
	if f.maxTokens == 0 {
		f.maxTokens = rf.MaxTokens
	}
	return rf, nil
}

func (a *app) planPhase(ctx context.Context, f runFlags, rf runFile, op operator, ph phase) (planned, error) {
	var p planned
	ws, err := a.workspaceDir(f.workspace)
	if err != nil {
		return p, err
	}
	layers, err := a.flagLayers(f, rf)
	if err != nil {
		return p, err
	}
	set, origins, denied, err := a.resolve(op, f.profile, ws, layers...)
	if err != nil {
		return p, err
	}
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
	if l.Roots, err = a.roots(f.roots, op.Skills, set.Discover, ws, l.Mounts); err != nil {
		return p, err
	}
	if len(l.Skills) > 0 && len(l.Roots) == 0 {
		return p, wrong("usage", "name the folder of skills with --skills-root", "--skill needs --skills-root")
	}
	if l.Batch, err = a.batch(f.outputMode); err != nil {
		return p, err
	}
	if l.Prompt, err = a.promptText(f, ph); err != nil {
		return p, err
	}
	l.PromptRole = policy.Role(firstSet(f.promptRole, string(set.Policy.SlotRole)))
	if !slices.Contains([]policy.Role{policy.DirectCommand, policy.Context, policy.Quote}, l.PromptRole) {
		return p, wrong("usage", "roles: direct-command, context, quote", "--prompt-slot-role %q is not a role", l.PromptRole)
	}
	if l.Spec, err = a.spec(f, ph); err != nil {
		return p, err
	}
	if l.Tools, err = a.grantedTools(f, ph, op, set, l.Spec.Mode); err != nil {
		return p, err
	}
	if p.model, err = a.chooseModel(ctx, op, firstSet(ph.Model, f.model, rf.Model), firstSet(ph.Script, rf.Script)); err != nil {
		return p, err
	}
	l.Model, l.Spec.Model = p.model.id, p.model.id
	if p.model.script != "" {
		l.Model = "scripted:" + p.model.script
	}
	if pr, ok := op.Prices[p.model.id]; ok {
		l.Spec.Price = pr.price()
	}
	l.Artifacts = a.runsRoot(f.artifacts, op, ws)
	p.launch = l
	return p, nil
}

// flagLayers are the settings of the run file and of the flags.
func (a *app) flagLayers(f runFlags, rf runFile) ([]settings.Layer, error) {
	var out []settings.Layer
	if len(rf.Set) > 0 {
		out = append(out, settings.Layer{Name: f.file, Operator: true, Values: rf.Set})
	}
	l, err := setFlag(f.set)
	if err != nil {
		return nil, err
	}
	if f.noCatalog {
		l.Values["catalog_place"], l.Name = "none", "flags"
	}
	switch f.onDrift {
	case "":
	case "fail", "warn", "reload", "ignore":
		l.Values["drift_batch"], l.Values["drift_interactive"] = f.onDrift, f.onDrift
	default:
		return nil, wrong("usage", "choices: fail, warn, reload, ignore", "--on-drift %q is not a choice", f.onDrift)
	}
	return append(out, l), nil
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
func (a *app) promptText(f runFlags, ph phase) (string, error) {
	text, file := firstSet(ph.Prompt, f.prompt), firstSet(ph.PromptFile, f.promptFile)
	if text != "" && file != "" {
		return "", wrong("usage", "give one of them", "--prompt and --prompt-file do not go together")
	}
	if file == "-" {
		b, err := io.ReadAll(io.LimitReader(a.In, 8<<20))
		if err != nil {
			return "", fmt.Errorf("read the task from standard input: %w", err)
		}
		text = string(b)
	} else if file != "" {
		b, err := os.ReadFile(a.path(file))
		if err != nil {
			return "", wrong("prompt_unreadable", "give the path of a text file", "read the task: %w", err)
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", wrong("usage", "give it with --prompt, --prompt-file or a run file", "there is no task")
	}
	return text, nil
}

func (a *app) spec(f runFlags, ph phase) (agent.Spec, error) {
	s := agent.Spec{Mode: firstSet(ph.Mode, f.mode, agent.ModeChat), MaxTurns: f.maxTurns, MaxTokens: f.maxTokens}
	if ph.MaxTurns > 0 {
		s.MaxTurns = ph.MaxTurns
	}
	if s.Mode != agent.ModeChat && s.Mode != agent.ModePlan {
		return s, wrong("usage", "modes: chat, plan", "--mode %q is not a mode", s.Mode)
	}
	if s.MaxTurns < 0 || s.MaxTokens < 0 {
		return s, wrong("usage", "give a positive number", "--max-turns and --max-tokens cannot be negative")
	}
	if f.outputSchema != "" {
		b, err := os.ReadFile(a.path(f.outputSchema))
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

// knownTools are the tools of this build, with what they do.
var knownTools = map[string]policy.Effect{
	settings.ToolReadFile: policy.Read, settings.ToolListFiles: policy.Read, settings.ToolSearchFiles: policy.Read,
	settings.ToolWriteFile: policy.Write, settings.ToolEditFile: policy.Write,
	settings.ToolLoadSkill: policy.Read, settings.ToolReadSkillResource: policy.Read,
}

// grantedTools are exactly the named tools, or the profile's default set
// (ruling 20); in plan mode those of them that only read.
func (a *app) grantedTools(f runFlags, ph phase, op operator, s settings.Settings, mode string) ([]string, error) {
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
	alias := map[string]string{s.Tools.Load: settings.ToolLoadSkill, s.Tools.Resource: settings.ToolReadSkillResource}
	out := []string{}
	for _, n := range named {
		if c, ok := alias[n]; ok && n != "" {
			n = c
		}
		effect, known := knownTools[n]
		if !known {
			if slices.Contains(s.Tools.Default, n) {
				continue // named by a profile for a later version
			}
			return nil, wrong("tool_unknown", "tools: "+strings.Join(toolNames(), ", "), "there is no tool %q", n)
		}
		if mode == agent.ModePlan && effect != policy.Read || slices.Contains(out, n) {
			continue
		}
		out = append(out, n)
	}
	return out, nil
}

func toolNames() []string {
	var out []string
	for n := range knownTools {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
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

// result is what a finished run tells.
type result struct {
	Run    string          `json:"run"`
	Phase  string          `json:"phase,omitempty"`
	Status string          `json:"status"`
	Code   string          `json:"code,omitempty"`
	Answer string          `json:"answer"`
	Output json.RawMessage `json:"output,omitempty"`
	Turns  int             `json:"turns"`
	Tokens int64           `json:"tokens"`
	Cost   *float64        `json:"costUSD,omitempty"`
	Asks   []ask           `json:"asks,omitempty"`
	Head   string          `json:"head"`
	Dir    string          `json:"dir"`
}

type ask struct {
	Call     string `json:"call"`
	ID       string `json:"id"`
	Question string `json:"question"`
}

func outcomeResult(o agent.Outcome, phase, dir string) result {
	r := result{Run: o.Run, Phase: phase, Status: o.Status, Code: o.Code, Answer: o.Answer, Output: o.Output, Turns: o.Turns,
		Tokens: o.Usage.Input + o.Usage.Output, Head: fmt.Sprintf("%d:%s", o.Head.Seq, o.Head.Hash), Dir: dir}
	if o.Usage.CostMicroUSD != nil {
		usd := float64(*o.Usage.CostMicroUSD) / 1e6
		r.Cost = &usd
	}
	for _, q := range o.Asks {
		r.Asks = append(r.Asks, ask{Call: q.Call, ID: q.ID, Question: q.Text})
	}
	return r
}

// execute runs one launch from its beginning.
func (a *app) execute(ctx context.Context, p planned, id string) (r result, err error) {
	j, err := a.prepare(ctx, p.launch, p.settings, p.origins, p.model)
	if err != nil {
		return r, err
	}
	defer func() { err = closed(j.close(context.WithoutCancel(ctx)), err) }()
	folder, err := run.Create(p.launch.Artifacts, id, a.runOptions())
	if err != nil {
		return r, err
	}
	if err := j.open(ctx, folder); err != nil {
		return r, errors.Join(err, folder.Close())
	}
	return j.follow(ctx)
}

// follow begins the work, drives it and reports.
func (j *job) follow(ctx context.Context) (result, error) {
	a := j.a
	if j.model.note != "" && !a.json {
		fmt.Fprintf(a.Err, "note: %s\n", printable(j.model.note))
	}
	if err := j.begin(ctx); err != nil {
		return result{}, err
	}
	o, err := j.drive(ctx, a.watcher().observe)
	if err != nil {
		return result{}, err
	}
	return outcomeResult(o, j.launch.Phase, j.folder.Dir()), nil
}

// closed joins the error of closing to the one of the work, which comes first.
func closed(closing, work error) error {
	if work != nil {
		return work
	}
	return closing
}

// finishRun prints answers and where the record is, and turns the last status
// into an exit code.
func (a *app) finishRun(ctx context.Context, flag, planned string, rs []result) error {
	if file := firstSet(flag, planned); file != "" {
		b, err := json.MarshalIndent(oneOrMany(rs), "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.Write(a.path(file), append(b, '\n'), 0o644); err != nil {
			return &metier.Error{Op: "result", Path: file, Kind: metier.Unavailable, Code: "result_unwritable", Hint: "give another file with --result-json", Err: err}
		}
	}
	if a.json {
		if err := a.document(oneOrMany(rs)); err != nil {
			return err
		}
	} else {
		for _, r := range rs {
			a.showResult(r)
		}
	}
	return statusError(rs[len(rs)-1])
}

func oneOrMany(rs []result) any {
	if len(rs) == 1 {
		return rs[0]
	}
	return map[string]any{"runs": rs}
}

func (a *app) showResult(r result) {
	if r.Output != nil {
		fmt.Fprintf(a.Out, "%s\n", r.Output)
	} else if r.Answer != "" {
		fmt.Fprintf(a.Out, "%s\n", strings.TrimRight(printable(r.Answer), "\n"))
	}
	cost := ""
	if r.Cost != nil {
		cost = fmt.Sprintf(", $%.4f", *r.Cost)
	}
	fmt.Fprintf(a.Err, "run %s: %s, %d turns, %d tokens%s\n", r.Run, statusText(r), r.Turns, r.Tokens, cost)
	fmt.Fprintf(a.Err, "record: %s\nhead: %s\n", filepath.Join(r.Dir, "events.jsonl"), r.Head)
	for _, q := range r.Asks {
		fmt.Fprintf(a.Err, "waits for an answer: %s\n", printable(q.Question))
	}
}

func statusText(r result) string {
	if r.Code != "" {
		return r.Status + " (" + r.Code + ")"
	}
	return r.Status
}

// statusError is the exit of a run that is not done.
func statusError(r result) error {
	p := &problem{code: firstSet(r.Code, "run_"+r.Status), err: fmt.Errorf("run %s ended as %s", r.Run, statusText(r)), hint: hintOf(r)}
	switch r.Status {
	case "done":
		return nil
	case "parked":
		p.exit = exitParked
	case "denied":
		p.exit = exitDenied
	case "cancelled", "interrupted":
		p.exit = exitInterrupted
	default:
		p.exit = exitFailed
	}
	return p
}

// hintOf names the way out of a run that is not done.
func hintOf(r result) string {
	again := "metier run --resume " + r.Run
	switch r.Code {
	case "model_auth", "model_forbidden":
		return "check the provider's key; then go on with: " + again
	case "model_not_found":
		return "check the name given with --model"
	case "model_context_overflow":
		return "give a model with a larger window, or fewer skills and files"
	case "turn_limit":
		return "allow more with --max-turns"
	case "token_budget":
		return "allow more with --max-tokens"
	case "loop_detected":
		return "the model made the same call again and again; see 'metier runs show " + r.Run + "'"
	case "output_invalid":
		return "see 'metier runs show " + r.Run + "' for the answers that did not fit the schema"
	}
	switch r.Status {
	case "parked":
		return "answer and go on with: " + again
	case "interrupted":
		return "go on with: " + again
	}
	return "see 'metier runs show " + r.Run + "'"
}

// safeID makes a phase's name a part of a run id.
func safeID(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}
