package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"metier/config"
	"metier/engine"
	"metier/policy"
)

// runFlags are the flags of `metier run`.
type runFlags struct {
	rootFlags
	file         string
	cwd          string
	mounts       []string
	skills       []string
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
	onDrift      string
	dryRun       bool
	onApproval   string
	park         bool // the former spelling of onApproval
	resume       string
	trustRecord  bool
	mcpConfig    []string
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
		Long: `Run gives an agent a task, a workspace, and skills, and waits until the agent
finishes. It keeps a record of what the agent received, read, and did.

The answer goes to standard output, and progress to standard error. To continue a
run that was stopped or killed, use --resume. To continue a finished run, also use
--prompt with a new message.`,
		Example: `  metier run -f examples/quickstart/run.yaml
  metier run --skill report --prompt "Write the weekly report"
  metier run --harness examples/sales-desk --prompt "Which shop sold the most?"
  metier run --output-mode batch --allow-tool read_file --prompt-file task.md
  metier run --resume latest`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong("usage", "specify the task with --prompt, --prompt-file, or a run file", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return a.runMain(c, f) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.file, "file", "f", "", "run `file`; flags override it")
	fl.StringVar(&f.workspace, "workspace", "", "`folder` in which the agent works (default: the current one)")
	fl.StringVar(&f.cwd, "cwd", "", "base `folder`, in the workspace, for relative paths in tool calls")
	fl.StringArrayVar(&f.mounts, "mount", nil, "`mount` another folder: name=NAME,source=DIR,target=/PATH,mode=ro|rw (repeatable)")
	fl.StringArrayVar(&f.roots, "skills-root", nil, "skills `folder`, relative to the workspace (repeatable)")
	harnessFlag(fl, &f.harness)
	fl.StringArrayVar(&f.skills, "skill", nil, "`skill` to load before the task (repeatable; loaded in the order given)")
	fl.StringVar(&f.profile, "profile", "", "settings `profile`; see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "change a setting: `name=value` (repeatable)")
	fl.BoolVar(&f.noCatalog, "no-skill-catalog", false, "show the model only the loaded skills")
	fl.StringArrayVar(&f.allowTools, "allow-tool", nil, "allow this `tool`, and only the tools named with this flag; 'default' adds the profile's tools (repeatable; default: the profile's tools)")
	fl.StringArrayVar(&f.mcpConfig, "mcp-config", nil, "`file` that lists MCP servers, {\"mcpServers\": …} (repeatable); their tools need --allow-tool mcp__SERVER__*")
	f.programFlags.add(fl)
	f.browser.add(fl)
	fl.StringVar(&f.target, "skill-script-execution-target", "", "`target` where skill scripts run: sandbox (host is only for subagents)")
	f.subagents.add(fl)
	fl.StringArrayVar(&f.deny, "deny-skill", nil, "deny a `skill`, by name or ID (repeatable)")
	fl.StringVar(&f.model, "model", "", "`model` to use: provider:name, or scripted:FILE")
	fl.StringVar(&f.prompt, "prompt", "", "`text` of the task, or of the next message with --resume; '/NAME words' calls the skill NAME")
	fl.StringVar(&f.promptFile, "prompt-file", "", "`file` that contains the task (-: standard input)")
	fl.StringVar(&f.mode, "mode", "", "agent `mode`: chat, code (write and run code), or plan (read only, and answer with a plan) (default chat)")
	fl.StringVar(&f.outputMode, "output-mode", "", "`mode` for questions: operator (ask the user) or batch (answer no to every question) (default: operator in a terminal)")
	fl.StringVar(&f.outputSchema, "output-schema", "", "`file` with a JSON Schema that the answer must match")
	fl.StringVar(&f.resultJSON, "result-json", "", "write the result to this `file`")
	fl.StringVar(&f.promptRole, "prompt-slot-role", "", "`role` of the task: direct-command, context, or quote")
	fl.StringVar(&f.enforcement, "enforcement-mode", "", "`mode` that determines whether calls need a direct command from the user: disabled, observe, enforce-explicit, or enforce-strict")
	fl.IntVar(&f.maxTurns, "max-turns", 0, "maximum `number` of turns (default 50)")
	fl.Int64Var(&f.maxTokens, "max-tokens", 0, "maximum `number` of tokens for the whole run (default: no limit)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "`folder` for the record (default: .metier/runs in the workspace)")
	fl.StringVar(&f.onDrift, "on-drift", "", "`action` on --resume if skills have changed: fail, warn, reload, or ignore")
	fl.StringArrayVar(&f.failOn, "fail-on", nil, "`condition` that makes a finished run fail: denied (exit with 3 if calls were denied) (repeatable)")
	fl.BoolVarP(&a.verbose, "verbose", "v", false, "print each skill warning, including those from folders that the run does not name")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would run, without calling a model")
	fl.StringVar(&f.onApproval, "on-approval", approvalDeny, "`action` for calls that need approval in batch mode: deny, or wait (leave the question open and exit with 7)")
	fl.BoolVar(&f.park, "park", false, "")
	_ = fl.MarkHidden("park")
	fl.StringVar(&f.resume, "resume", "", "continue this `run`: an ID, a folder, or 'latest' ("+latestChanged+"); to add a message, use --prompt")
	fl.BoolVar(&f.trustRecord, "trust-record", false, "resume even if the record was written elsewhere or has lost entries; everything that the record allows stays allowed")
	a.completions(c)
	return c
}

func (a *app) runMain(c *cobra.Command, f runFlags) error {
	ctx := c.Context()
	var err error
	if f.park, err = f.waits(); err != nil {
		return err
	}
	if f.failOn, err = checkFailOn(f.failOn); err != nil {
		return err
	}
	if f.resume != "" {
		return a.resume(ctx, c, f)
	}
	if f.trustRecord {
		return wrong("usage", "use it with --resume RUN", "--trust-record needs --resume")
	}
	requests, resultJSON, err := a.requests(ctx, f)
	if err != nil {
		return err
	}
	if err := a.checkResult(resultJSON, requests...); err != nil {
		return err
	}
	var plans []*engine.Plan
	for _, q := range requests {
		p, err := a.engine().Plan(ctx, q.Request)
		if err != nil {
			return q.located(err)
		}
		plans = append(plans, p)
	}
	if f.dryRun {
		return a.dryRun(ctx, plans)
	}
	if err := a.rehearse(ctx, plans); err != nil {
		return err
	}
	base := a.engine().RunID()
	var results []result
	for i, p := range plans {
		id := base
		if p.Phase() != "" {
			id += "-" + config.SafeID(p.Phase())
			if !a.json {
				fmt.Fprintf(a.Err, "phase %s\n", oneLine(p.Phase()))
			}
		}
		var r result
		r, err = a.execute(ctx, p, id)
		if r.Run != "" {
			results = append(results, r)
		}
		if err != nil || r.Status != "done" {
			a.noteUnstarted(plans[i+1:])
			break
		}
	}
	f.resultJSON = resultJSON
	return a.finishRun(f, results, err)
}

// noteUnstarted reports the phases that do not run because an earlier one is not done. Resuming that
// one does not start them.
func (a *app) noteUnstarted(plans []*engine.Plan) {
	var names []string
	for _, p := range plans {
		names = append(names, oneLine(p.Phase()))
	}
	if len(names) > 0 && !a.json {
		fmt.Fprintf(a.Err, "note: the later phases were not started, and --resume does not start them: %s\n", strings.Join(names, ", "))
	}
}

// Values of --on-approval.
const approvalDeny, approvalWait = "deny", "wait"

// waits reports whether a batch run leaves questions open.
func (f *runFlags) waits() (bool, error) {
	if f.onApproval != approvalDeny && f.onApproval != approvalWait {
		return false, wrong("usage", "choices: "+approvalDeny+", "+approvalWait, "%q is not a valid value for --on-approval", f.onApproval)
	}
	return f.park || f.onApproval == approvalWait, nil
}

// rehearse finds problems with any phase before the first one starts.
func (a *app) rehearse(ctx context.Context, plans []*engine.Plan) error {
	if len(plans) < 2 {
		return nil // Start finds it
	}
	for _, p := range plans {
		if err := a.engine().Check(ctx, p); err != nil {
			return fmt.Errorf("phase %s: %w", p.Phase(), err)
		}
	}
	return nil
}

// execute starts a run and follows it to its end.
func (a *app) execute(ctx context.Context, p *engine.Plan, id string) (result, error) {
	w := a.watcher()
	r, err := a.engine().Start(ctx, p, id, a.hooks(w))
	if err != nil {
		if r != nil {
			err = a.resumable(r.ID(), r.Dir(), err)
		}
		return result{}, err
	}
	return a.follow(ctx, r, w)
}

// follow drives a run to its end.
func (a *app) follow(ctx context.Context, r *engine.Run, w *watcher) (out result, err error) {
	defer func() {
		err = a.resumable(r.ID(), r.Dir(), closed(r.Close(context.WithoutCancel(ctx)), err))
	}()
	w.clean = r.Clean
	a.working.Store(&result{Run: r.ID(), Dir: r.Dir()})
	o, err := r.Drive(ctx)
	w.endText()
	if o.Run == "" {
		return out, err
	}
	out = outcomeResult(o)
	out.shown = w.showed(o.Answer)
	return out, err
}

// hooks connect a run with the terminal.
func (a *app) hooks(w *watcher) engine.Hooks {
	h := engine.Hooks{Notify: w.notice, Verbose: a.verbose, Progress: w.observe, Child: w.child}
	if a.asks() {
		h.Ask = func(ctx context.Context, q engine.Question) (policy.Answer, error) {
			name := "the agent"
			if q.Subagent != "" {
				name = "the subagent " + q.Subagent
			}
			defer w.hold()()
			return a.ask(ctx, name, q.Question, q.Args)
		}
	}
	return h
}

// closed joins the error of closing to that of the work, which comes first.
func closed(closing, work error) error {
	if work != nil {
		return work
	}
	return closing
}
