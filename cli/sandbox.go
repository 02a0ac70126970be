package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/exectool"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/sandbox"
)

func (a *app) sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", GroupID: "setup", Short: "Check this host's sandboxes, and run a command in one", Args: cobra.NoArgs,
		RunE: a.help}
	c.AddCommand(a.sandboxProbeCommand(), a.sandboxRunCommand())
	return c
}

func (a *app) sandboxProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe",
		Short: "Show what isolation this machine provides, and what is missing",
		Long: "Probe tries each sandbox and prints the isolation level that it provides:\n" + levelChoices() + `.

Exit 6: the default sandbox cannot run programs at L2.`,
		Example: "  metier sandbox probe\n  metier sandbox probe --json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.sandboxProbe(c.Context()) },
	}
}

func (a *app) sandboxProbe(ctx context.Context) error {
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	def, err := engine.Backend("", op)
	if err != nil {
		return err
	}
	var out []sandbox.Report
	for _, name := range engine.Backends() {
		if name == engine.BackendGVisor && op.Sandbox.Runsc == "" {
			out = append(out, sandbox.Report{Backend: name, Missing: []sandbox.Missing{{Primitive: "runsc", Detail: "it is not configured", Fix: "set sandbox.runsc in the configuration to its path"}}})
			continue
		}
		r, err := a.engine().Probe(ctx, name, op)
		if err != nil {
			return err
		}
		out = append(out, r)
	}
	err = a.put(map[string]any{"backends": out, "default": def}, func() { probeText(a.Out, out, def) })
	for _, p := range out {
		if err == nil && p.Backend == def && !p.Available {
			m := p.Missing[0]
			return &problem{exit: exitSandbox, code: "sandbox_unavailable", silent: true, err: fmt.Errorf("%s: %s: %s", p.Backend, m.Primitive, m.Detail)}
		}
	}
	return err
}

func probeText(w io.Writer, list []sandbox.Report, def string) {
	for _, p := range list {
		state, lacks := "cannot run here", "missing"
		if p.Available {
			state, lacks = p.Level.String(), "not provided:"
		}
		if p.Backend == def {
			state += ", the default"
		}
		fmt.Fprintf(w, "%s: %s\n", p.Backend, state)
		for _, m := range p.Missing {
			fmt.Fprintf(w, "  %s %s: %s\n", lacks, m.Primitive, termtext.Line(m.Detail))
			if m.Fix != "" {
				fmt.Fprintf(w, "    %s\n", termtext.Line(m.Fix))
			}
		}
		if len(p.Notes) > 0 {
			fmt.Fprintf(w, "  notes: %s\n", strings.Join(p.Notes, ", "))
		}
	}
}

// levelChoices lists the isolation levels with their meanings.
func levelChoices() string {
	var out []string
	for _, l := range sandbox.Levels() {
		out = append(out, l.String()+" ("+l.Meaning()+")")
	}
	return plural.Either(out)
}

// levelNames lists the isolation levels.
func levelNames() (out []string) {
	for _, l := range sandbox.Levels() {
		out = append(out, l.String())
	}
	return out
}

// backendChoices describes the values of --sandbox.
var backendChoices = plural.Either(engine.Backends()) + ", which does not isolate (default " + engine.BackendNative + ")"

// sandboxFlags are the flags of `sandbox run`.
type sandboxFlags struct {
	workspace, level, backend string
	timeout                   time.Duration
}

func (a *app) sandboxRunCommand() *cobra.Command {
	var f sandboxFlags
	c := &cobra.Command{
		Use:   "run [flags] -- CMD ARGS...",
		Short: "Run one command in the sandbox",
		Long: `Run starts a command in the same environment as a skill script: system programs, a
scratch folder, the workspace at /workspace, and nothing else. It exits with the
command's exit code.`,
		Example: "  metier sandbox run -- id\n  metier sandbox run --workspace . --timeout 10s -- ls -l /workspace",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrong("usage", "use: metier sandbox run -- CMD ARGS...", "no command was specified")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.sandboxRun(c.Context(), f, c.Flags().Changed("level"), args)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.workspace, "workspace", "", "writable `folder` to mount at /workspace (default: none)")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit for the command (a `duration` such as 90s; default 1m)")
	fl.StringVar(&f.level, "level", "", "minimum isolation `level`: "+levelChoices()+" (default "+sandbox.L2.String()+", or "+sandbox.L0.String()+" with --sandbox "+engine.BackendUnsafe+")")
	fl.StringVar(&f.backend, "sandbox", "", "`sandbox` to use: "+backendChoices)
	a.completions(c)
	return c
}

func (a *app) sandboxRun(ctx context.Context, f sandboxFlags, leveled bool, args []string) (err error) {
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	name, err := engine.Backend(f.backend, op)
	if err != nil {
		return err
	}
	least := sandbox.L2
	if leveled {
		if least, err = sandbox.ParseLevel(f.level); err != nil && slices.Contains(engine.Backends(), f.level) {
			return wrong("usage", "use --sandbox "+f.level, "%s is a value of --sandbox, not a level", f.level)
		} else if err != nil {
			return wrong("usage", "levels: "+levelChoices(), "--level %s is not a level", termtext.Quote(f.level))
		}
	}
	if f.timeout < 0 {
		return wrong("usage", "use a duration such as 10s", "--timeout cannot be negative")
	}
	s, accept, err := a.engine().OpenSandbox(name, op)
	if err != nil {
		return err
	}
	defer func() { err = closed(s.Close(), err) }()
	if accept && !leveled {
		least = sandbox.L0
		fmt.Fprintln(a.Err, "note: "+name+" is not a sandbox: the command runs on the host without isolation")
	}
	j := sandbox.Job{Argv: args, MinLevel: least, Limits: sandbox.Limits{Wall: f.timeout}, Env: exectool.Environment()}
	if f.workspace != "" {
		if j.Workspace, err = a.engine().SandboxFolder(ctx, f.workspace); err != nil {
			return err
		}
	}
	if !a.json {
		j.Stdout, j.Stderr = streamTo(func(p []byte) { a.passOn("", "stdout", p) }), streamTo(func(p []byte) { a.passOn("", "stderr", p) })
	}
	r, err := s.Run(ctx, j)
	if err != nil {
		return programError(err)
	}
	return a.ranCommand(j, r)
}

// ranCommand shows how a command ended, and returns the same exit code.
func (a *app) ranCommand(j sandbox.Job, r sandbox.Result) error {
	res := exectool.Result{Status: "executed", Signal: r.Signal, Limit: r.Limit, Stdout: string(r.Stdout), Stderr: string(r.Stderr), Truncated: r.StdoutTruncated || r.StderrTruncated,
		Backend: r.Backend, Level: r.Level.String(), Argv: j.Argv, Restored: r.Restored}
	for _, q := range r.Quarantined {
		res.Quarantined = append(res.Quarantined, exectool.Quarantined(q))
	}
	if r.Signal == "" && r.Limit == "" {
		res.ExitCode = &r.Exit
	}
	if r.Unsearched {
		a.engine().Notify(engine.RepositoriesUnsearched())
	}
	if a.json {
		if err := a.document(res); err != nil {
			return err
		}
	} else {
		a.noteCut(res)
		if res.ExitCode == nil {
			fmt.Fprintf(a.Err, "metier: the command %s\n", ended(res))
		}
	}
	switch {
	case res.ExitCode == nil:
		return &problem{exit: exitFailed, code: "command_ended", silent: true, err: fmt.Errorf("the command %s", ended(res))}
	case r.Exit != 0:
		return &problem{exit: r.Exit, code: "command_failed", silent: true, err: fmt.Errorf("the command %s", ended(res))}
	}
	return nil
}

type streamTo func([]byte)

func (s streamTo) Write(p []byte) (int, error) {
	s(p)
	return len(p), nil
}

// programError describes an error of a sandbox.
func programError(err error) error {
	if _, lacks := errors.AsType[*sandbox.Unavailable](err); !lacks && errors.Is(err, fs.ErrNotExist) {
		return &metier.Error{Op: "run", Kind: metier.NotFound, Code: "program_missing", Hint: "use a program outside home folders, which are not visible in the sandbox", Err: err}
	}
	return exectool.Failed(err)
}
