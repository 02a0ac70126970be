package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"metier/config"
	"metier/run"
)

// runFlags are the flags of `metier run`.
type runFlags struct {
	programFlags
	file         string
	workspace    string
	cwd          string
	mounts       []string
	roots        []string
	harness      []string
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
	enforcement  string
	maxTurns     int
	maxTokens    int64
	artifacts    string
	onDrift      string
	dryRun       bool
	park         bool
	resume       string
	trustRecord  bool
	mcpConfig    []string
	granted      []string // tools of policy files
	failOn       []string
	subagents    subagentFlags
	browser      browserFlags
	target       string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "run [flags]",
		GroupID: "work",
		Short:   "Run an agent on a task",
		Long: `Run gives an agent a task, a workspace and skills, follows it to the end and
leaves a record of what it was told, read and did.

The answer goes to standard output, progress to standard error. A run that is
stopped or killed goes on with --resume.`,
		Example: `  metier run -f examples/quickstart/run.yaml
  metier run --skill report --prompt "Write the weekly report"
  metier run --harness examples/sales-desk --prompt "Which shop sold most?"
  metier run --output-mode batch --allow-tool read_file --prompt-file task.md
  metier run --resume latest`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong("usage", "give the task with --prompt, --prompt-file or a run file", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return a.runMain(c, f) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.file, "file", "f", "", "run file; flags win over what it says")
	fl.StringVar(&f.workspace, "workspace", "", "folder the agent works in (default: the current one)")
	fl.StringVar(&f.cwd, "cwd", "", "folder in the workspace that relative paths start at")
	fl.StringArrayVar(&f.mounts, "mount", nil, "another folder: name=NAME,source=DIR,target=/PATH,mode=ro|rw (repeatable)")
	fl.StringArrayVar(&f.roots, "skills-root", nil, "folder of skills, relative to the workspace (repeatable)")
	harnessFlag(fl, &f.harness)
	fl.StringArrayVar(&f.skills, "skill", nil, "skill to load before the task (repeatable, in order)")
	fl.StringVar(&f.profile, "profile", "", "set of settings, see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "one setting: name=value (repeatable)")
	fl.BoolVar(&f.noCatalog, "no-skill-catalog", false, "tell the model of no skills but the loaded ones")
	fl.StringArrayVar(&f.allowTools, "allow-tool", nil, "allow exactly this tool (repeatable; 'default' is the profile's tools, also without the flag)")
	fl.StringArrayVar(&f.mcpConfig, "mcp-config", nil, `file of MCP servers, {"mcpServers": …} (repeatable); their tools need --allow-tool mcp__SERVER__*`)
	f.add(fl)
	f.browser.add(fl)
	fl.StringVar(&f.target, "skill-script-execution-target", "", "where scripts of skills run: sandbox; host is for subagents alone")
	f.subagents.add(fl)
	fl.StringArrayVar(&f.deny, "deny-skill", nil, "deny a skill, by name or ID (repeatable)")
	fl.StringVar(&f.model, "model", "", "provider:name, or scripted:FILE")
	fl.StringVar(&f.prompt, "prompt", "", "the task; '/NAME words' calls the skill NAME with these arguments")
	fl.StringVar(&f.promptFile, "prompt-file", "", "file with the task, - for standard input")
	fl.StringVar(&f.mode, "mode", "", "chat; code: write code and run it; or plan: read only, answer with a plan (default chat)")
	fl.StringVar(&f.outputMode, "output-mode", "", "operator: a person is there; batch: nobody answers (default: operator in a terminal)")
	fl.StringVar(&f.outputSchema, "output-schema", "", "JSON schema the answer must fit")
	fl.StringVar(&f.resultJSON, "result-json", "", "file to write the result to")
	fl.StringVar(&f.promptRole, "prompt-slot-role", "", "role of the task: direct-command, context or quote")
	fl.StringVar(&f.enforcement, "enforcement-mode", "", "evidence of a direct command that calls need: disabled, observe, enforce-explicit or enforce-strict")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "most turns (default 50)")
	fl.Int64Var(&f.maxTokens, "max-tokens", 0, "most tokens of the whole run (default: no limit)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "folder for the record (default: .metier/runs in the workspace)")
	fl.StringVar(&f.onDrift, "on-drift", "", "resume with changed skills: fail, warn, reload or ignore")
	fl.StringArrayVar(&f.failOn, "fail-on", nil, "exit with 3 if a run that is done has these: denied (calls; repeatable)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would run, ask no model")
	fl.BoolVar(&f.park, "park", false, "batch: leave questions open (exit 7) instead of answering no")
	fl.StringVar(&f.resume, "resume", "", "run to go on with: id, folder or 'latest'")
	fl.BoolVar(&f.trustRecord, "trust-record", false, "resume a record that was not written here or lost entries, with all that it allows")
	a.completions(c)
	return c
}

func (a *app) runMain(c *cobra.Command, f runFlags) error {
	ctx := c.Context()
	var err error
	if f.failOn, err = checkFailOn(f.failOn); err != nil {
		return err
	}
	if f.resume != "" {
		return a.resume(ctx, c, f)
	}
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	plans, err := a.plan(ctx, f, op)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(ctx, plans)
	}
	if err := a.rehearse(ctx, plans); err != nil {
		return err
	}
	base := a.runID()
	var results []result
	for _, p := range plans {
		id := base
		if p.launch.Phase != "" {
			id += "-" + config.SafeID(p.launch.Phase)
			if !a.json {
				fmt.Fprintf(a.Err, "phase %s\n", oneLine(p.launch.Phase))
			}
		}
		var r result
		r, err = a.execute(ctx, p, id)
		if r.Run != "" {
			results = append(results, r)
		}
		if err != nil || r.Status != "done" {
			break
		}
	}
	f.resultJSON = plans[0].resultJSON
	return a.finishRun(f, results, err)
}

// rehearse finds what is wrong with any phase before the first one begins.
func (a *app) rehearse(ctx context.Context, plans []planned) error {
	if len(plans) < 2 {
		return nil // execute finds it
	}
	for _, p := range plans {
		j, err := a.prepare(ctx, p)
		if err != nil {
			return fmt.Errorf("phase %s: %w", p.launch.Phase, err)
		}
		if err := errors.Join(j.known(), j.close(ctx)); err != nil {
			return fmt.Errorf("phase %s: %w", p.launch.Phase, err)
		}
	}
	return nil
}

// execute runs one launch from its beginning.
func (a *app) execute(ctx context.Context, p planned, id string) (r result, err error) {
	j, err := a.prepare(ctx, p)
	if err != nil {
		return r, err
	}
	var folder *run.Folder
	defer func() {
		if err = closed(j.close(context.WithoutCancel(ctx)), err); folder != nil {
			err = a.resumable(folder, err)
		}
	}()
	if err := j.known(); err != nil {
		return r, err
	}
	if folder, err = a.createRun(ctx, p.launch.Workspace, p.launch.Artifacts, id); err != nil {
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
	if j.model.Note != "" && !a.json {
		fmt.Fprintf(a.Err, "note: %s\n", oneLine(j.model.Note))
	}
	if err := j.presentHarnesses(ctx); err != nil {
		return result{}, err
	}
	j.noteSkipped()
	j.noteHosts()
	j.noteReadOnly()
	j.noteBrowser()
	if err := j.begin(ctx); err != nil {
		return result{}, err
	}
	j.noteCatalog(ctx)
	// The registry stands in its file from the start, whatever happens later.
	if err := j.folder.Project(ctx); err != nil {
		return result{}, err
	}
	w := a.watcher()
	j.watch = w
	o, err := j.drive(ctx, w.observe)
	w.endText()
	if err != nil {
		o.Status, o.Code = "interrupted", problemOf(err).code
	}
	o.Run = j.folder.ID()
	r := outcomeResult(o, j.launch.Phase, j.folder.Dir())
	r.workspace, r.shown, r.Catalog = j.launch.Workspace, w.showed(o.Answer), j.catalogReport(ctx)
	calls, failed := deniedIn(context.WithoutCancel(ctx), j.log)
	r.Denied = denied{deniedCalls(calls), calls}
	return r, closed(failed, err)
}

// closed joins the error of closing to the one of the work, which comes first.
func closed(closing, work error) error {
	if work != nil {
		return work
	}
	return closing
}
