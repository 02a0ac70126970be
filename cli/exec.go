package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/exectool"
	"metier/internal/termtext"
	"metier/sandbox"
)

// execFlags are the flags of `metier exec`.
type execFlags struct {
	rootFlags
	cwd     string
	timeout time.Duration
	stdin   bool
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:     "exec SKILL scripts/PATH [flags] [-- ARGS...]",
		GroupID: "work",
		Short:   "Run one of a skill's scripts in the sandbox",
		Long: `Exec runs one of a skill's scripts, with the same checks as a call from a model,
and keeps a record. It activates the skill, and approves the script and the skill's
current files. Anything that the operator denied stays denied. SKILL is a name, an
ID, or the path to a skill folder or its SKILL.md.

The script's output is passed through.

Exit 0: the script succeeded. 1: the script failed. 3: policy denied it. 5: a file
changed after it was indexed. 6: the sandbox cannot provide the required isolation.`,
		Example: `  metier exec report scripts/report.py -- --month 2026-11
  metier exec report scripts/report.py --json
  cat data.csv | metier exec report scripts/sum.sh --stdin`,
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); len(args) < 2 || n >= 0 && n < 2 || n < 0 && len(args) > 2 || n > 2 {
				use := "SKILL scripts/PATH"
				if skill, script, ok := cutScript(args); ok {
					use = termtext.Word(skill) + " " + termtext.Word(script)
				}
				return wrong("usage", "use: metier exec "+use+" -- ARGS...", "exec needs a skill and a script, with the script's arguments after --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.exec(c.Context(), f, args[0], args[1], args[2:]) },
	}
	fl := c.Flags()
	fl.StringVar(&f.cwd, "cwd", "", "`folder` in which the script runs")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit for the script (a `duration` such as 90s; default 1m)")
	fl.BoolVar(&f.stdin, "stdin", false, "pass standard input to the script")
	f.add(fl)
	a.completions(c)
	c.ValidArgsFunction = a.completeScript
	return c
}

// cutScript splits the path of a script in a skill's folder, if that is the only argument.
func cutScript(args []string) (skill, script string, ok bool) {
	if len(args) == 0 || len(args) > 1 && strings.HasPrefix(args[1], "scripts/") {
		return "", "", false
	}
	i := strings.LastIndex(args[0], "/scripts/")
	if i <= 0 {
		return "", "", false
	}
	return args[0][:i], args[0][i+1:], true
}

// skillAt returns the ID of the skill at a path, and every other reference to a skill as it is. Of
// names and paths, names come first, as in the other commands.
func (a *app) skillAt(ctx context.Context, f rootFlags, subject string) (string, error) {
	if _, err := os.Lstat(a.env.Path(subject)); err != nil {
		return subject, nil
	}
	sh, err := a.openIndex(ctx, skillLocation{placeFlags: f.placeFlags})
	if err != nil {
		return "", err
	}
	if len(sh.Snapshot.Entries(subject)) > 0 {
		return subject, nil
	}
	sk, err := sh.Find(ctx, subject)
	return sk.ID.String(), err
}

func (a *app) exec(ctx context.Context, f execFlags, skill, path string, args []string) (err error) {
	if skill, err = a.skillAt(ctx, f.rootFlags, skill); err != nil {
		return err
	}
	if named := skill + ":" + path; !slices.Contains(f.scripts, named) {
		if _, err := engine.ScriptEntries("", []string{named}); err == nil { // else the script's own gate says what is wrong
			f.scripts = append(f.scripts, named)
		}
	}
	call := exectool.Script{Skill: skill, Path: path, Args: args, Cwd: f.cwd}
	if f.timeout < 0 || f.timeout > 0 && f.timeout < time.Millisecond {
		return wrong("usage", "use a duration such as 30s", "--timeout %s is not a valid duration for a script", f.timeout)
	}
	if f.stdin {
		const most = 96 << 10
		b, err := a.readIn(ctx, most+1)
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		if len(b) > most {
			return wrong("stdin_too_large", "write it to a file in the workspace, and pass the file's path to the script", "standard input has more than %d bytes", most)
		}
		call.Stdin = string(b)
	}
	q, err := a.rootRequest(f.rootFlags)
	if err != nil {
		return err
	}
	q.Batch = !a.asks()
	var h engine.Hooks
	if !a.json {
		h.Output = a.passOn
	}
	o, err := a.engine().Exec(ctx, q, call, f.timeout, h)
	if err != nil {
		return err
	}
	return a.execResult(o)
}

// execResult shows how the script ended. A script that ran and failed results in its exit code, not
// in an error of metier.
func (a *app) execResult(o metier.Observation) error {
	var res exectool.Result
	if err := json.Unmarshal(o.Detail(), &res); err != nil {
		return err
	}
	if a.json {
		if err := a.document(res); err != nil {
			return err
		}
	} else {
		a.noteCut(res)
		if o.Code() != "" {
			fmt.Fprintf(a.Err, "metier: the script %s\n", ended(res))
		}
	}
	if o.Code() != "" {
		return &problem{exit: exitFailed, code: o.Code(), silent: true, err: fmt.Errorf("the script %s", ended(res))}
	}
	return nil
}

// ended describes how the program ended, and how to give it more time.
func ended(r exectool.Result) string {
	if r.Limit == sandbox.LimitWall {
		return r.Ended() + "; to raise it, use --timeout"
	}
	return r.Ended()
}

// noteCut reports that there was more output than is kept.
func (a *app) noteCut(res exectool.Result) {
	if res.Truncated {
		fmt.Fprintf(a.Err, "note: the output was truncated: only the first %d bytes of each stream are kept\n", sandbox.DefaultLimits.Output)
	}
	if len(res.Restored) > 0 {
		fmt.Fprintf(a.Err, "note: %s\n", exectool.RestoredText(res.Restored))
	}
}

// passOn writes a program's output as it arrives: unchanged to a pipe, with control characters made
// visible on a terminal. Each stream is handled separately.
func (a *app) passOn(_, stream string, p []byte) {
	w, terminal := a.Out, a.outTerminal()
	if stream == "stderr" {
		w, terminal = a.Err, a.Terminal
	}
	if terminal {
		lines := strings.Split(strings.ToValidUTF8(string(p), "\uFFFD"), "\n")
		for i := range lines {
			lines[i] = termtext.Escape(strings.TrimSuffix(lines[i], "\r"))
		}
		p = []byte(strings.Join(lines, "\n"))
	}
	_, _ = w.Write(p) // a full pipe ends the command elsewhere
}
