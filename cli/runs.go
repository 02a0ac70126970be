package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/config"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/run"
)

// runPlace holds the flags that locate the runs.
type runPlace struct{ workspace, artifacts string }

func (p *runPlace) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.workspace, "workspace", "", "`folder` in which the agent worked (default: the current one)")
	c.Flags().StringVar(&p.artifacts, "artifact-root", "", "records `folder` (default: .metier/runs in the workspace)")
}

// runsFolder returns the folder of runs named by the flags and the configuration.
func (a *app) runsFolder(p runPlace) (string, error) {
	op, err := config.Load(a.env)
	if err != nil {
		return "", err
	}
	ws := ""
	if p.artifacts == "" {
		if ws, err = a.engine().WorkspaceDir(p.workspace); err != nil {
			return "", err
		}
	}
	return a.engine().RunsRoot(p.artifacts, op, ws)
}

// findRun resolves the user's reference to a run.
func (a *app) findRun(p runPlace, what string) (root, id string, err error) {
	return a.findBy(p, what, run.Find)
}

// findOwn is like findRun, for commands that verify a run.
func (a *app) findOwn(p runPlace, what string) (root, id string, err error) {
	return a.findBy(p, what, func(root, what string) (string, string, error) {
		return run.FindOwn(root, what, a.engine().RunOptions())
	})
}

// findAgent resolves the user's reference to the run of an agent, for commands that continue it.
func (a *app) findAgent(ctx context.Context, p runPlace, what string) (root, id string, err error) {
	return a.findNoted(ctx, p, what, run.FindAgent)
}

// findWaiting resolves the user's reference to a run that may have an open question.
func (a *app) findWaiting(ctx context.Context, p runPlace, what string) (root, id string, err error) {
	return a.findNoted(ctx, p, what, run.FindWaiting)
}

// findNoted is like findBy, and prints the run that latest is.
func (a *app) findNoted(ctx context.Context, p runPlace, what string, find func(context.Context, string, string, *run.Options) (string, string, error)) (root, id string, err error) {
	known := func(root, what string) (string, string, error) { return find(ctx, root, what, a.engine().RunOptions()) }
	if root, id, err = a.findBy(p, what, known); err == nil {
		a.noteLatest(what, id)
	}
	return root, id, err
}

func (a *app) findBy(p runPlace, what string, find func(root, what string) (string, string, error)) (root, id string, err error) {
	if strings.ContainsAny(what, `/\`) {
		return run.Find("", a.env.Path(what))
	}
	root, err = a.runsFolder(p)
	if err != nil {
		return "", "", err
	}
	return find(root, what)
}

// lookAt opens a run for reading. own requires that this user recorded it.
func (a *app) lookAt(p runPlace, what string, own bool) (*run.Folder, error) {
	root, id, err := a.findRun(p, what)
	if err != nil {
		return nil, err
	}
	o := a.engine().RunOptions()
	o.RequireHead = own
	f, err := run.Look(root, id, o)
	if metier.KindOf(err) == metier.Drift && err != nil {
		return nil, &metier.Error{Op: "run", Path: filepath.Join(root, id), Kind: metier.Drift, Code: metier.CodeOf(err),
			Hint: "the record has changed since it was written; 'metier audit verify " + termtext.Word(what) + "' lists every problem", Err: err}
	}
	return f, err
}

// lookAtVouched is like lookAt, for commands that print a record without verifying it. It rejects a
// log that lost confirmed entries or was rewritten, in the same way as an altered one.
func (a *app) lookAtVouched(ctx context.Context, p runPlace, what string, own bool) (*run.Folder, error) {
	f, err := a.lookAt(p, what, own)
	if err != nil {
		return nil, err
	}
	if err := f.VerifyHead(ctx); err != nil {
		return nil, closed(f.Close(), err)
	}
	return f, nil
}

// oneRun checks the arguments of a command about one run.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	err := fmt.Errorf("%s needs the ID or folder of one run, or latest", nameOf(c))
	return &problem{exit: exitUsage, code: "usage", err: err, hint: "'metier runs list' shows the IDs; the start of an ID is enough"}
}

func (a *app) runsCommand() *cobra.Command {
	c := &cobra.Command{Use: "runs", GroupID: "proof", Short: "List, show, and export runs, and answer their questions",
		Long: "Read the records of 'metier run', and answer open questions. Only approve, deny,\nanswer RUN yes|no, and approvals --revoke change anything.", Args: cobra.NoArgs,
		RunE: a.help}
	c.AddCommand(a.runsListCommand(), a.runsStatsCommand(), a.runsShowCommand(), a.runsExportCommand(), a.runsAnswerCommand(), a.runsApproveCommand(), a.runsDenyCommand(), a.runsApprovalsCommand())
	return c
}

func (a *app) runsListCommand() *cobra.Command {
	var place runPlace
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the runs, newest first",
		Long: `List the runs with their status, the skills that were loaded, and the start of the
task. In a terminal, the task is truncated to fit the width.`,
		Example: "  metier runs list\n  metier runs list --limit 10 --json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return wrong("usage", "use 0 to list all runs", "--limit cannot be negative")
			}
			root, err := a.runsFolder(place)
			if err != nil {
				return err
			}
			a.endsSoon()
			list, err := a.engine().Runs(c.Context(), root)
			if err != nil {
				return err
			}
			if _, err := os.Stat(root); place.artifacts != "" && errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(a.Err, "note: the folder %s does not exist\n", oneLine(root))
			}
			run.NewestFirst(list)
			return a.listRuns(root, list, limit)
		}}
	place.flags(c)
	c.Flags().IntVar(&limit, "limit", 0, "maximum `number` of runs to list (default 0: all)")
	a.completions(c)
	return c
}

func (a *app) listRuns(root string, list []run.Summary, limit int) error {
	omitted, problems := 0, 0
	if limit > 0 && len(list) > limit {
		omitted = len(list) - limit
		for _, s := range list[limit:] {
			if s.Problem != "" {
				problems++
			}
		}
		list = list[:limit]
	}
	if a.json {
		doc := map[string]any{"runs": list}
		if omitted > 0 {
			doc["omitted"], doc["omittedProblems"] = omitted, problems
		}
		return a.document(doc)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(a.Out, "no runs in %s\n", oneLine(root))
		return err
	}
	t := table{heads: []string{"RUN", "STATUS", "MODEL", "TURNS", "TOKENS", "COST", "STARTED", "SKILLS", "TASK", "PROBLEM"}, right: []int{3, 4, 5}}
	for _, s := range list {
		s.Problem = a.placed(s.Problem)
		t.add(runRow(s)...)
	}
	t.fit(slices.Index(t.heads, "TASK"), a.columns())
	t.print(a.Out, "")
	if omitted > 0 {
		with := ""
		if problems > 0 {
			with = ", " + plural.Thousands(int64(problems)) + " with a problem"
		}
		fmt.Fprintf(a.Out, "%s more%s; --limit 0 lists all\n", plural.Thousands(int64(omitted)), with)
	}
	return nil
}

// mostSkills is the maximum number of skills in a row of the list.
const mostSkills = 3

func runRow(s run.Summary) []string {
	if s.Status == "" { // nothing of it could be read
		return []string{cmp.Or(s.ID, "…"), "unreadable", "", "", "", "", "", "", "", s.Problem}
	}
	status := s.Status
	switch {
	case s.Questions > 0:
		status += ", " + plural.Of(s.Questions, "question")
	case s.Code != "":
		status += " (" + s.Code + ")"
	}
	skills := strings.Join(s.Skills[:min(len(s.Skills), mostSkills)], ", ")
	if more := len(s.Skills) - mostSkills; more > 0 {
		skills += fmt.Sprintf(" and %d more", more)
	}
	return []string{s.ID, status, s.Model, fmt.Sprint(s.Turns), plural.Thousands(s.Tokens.Total), dollars(s.CostUSD, false), localTime(s.StartedAt), skills, s.Task, s.Problem}
}

func (a *app) runsShowCommand() *cobra.Command {
	var place runPlace
	var transcript bool
	c := &cobra.Command{Use: "show RUN", Short: "Show what one run received, read, and did",
		Long:    "Show prints what a run did." + aboutRun,
		Example: "  metier runs show latest\n  metier runs show latest --transcript\n  metier runs show 20260131 --json",
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) (err error) {
			f, err := a.lookAtVouched(c.Context(), place, args[0], false)
			if err != nil {
				return err
			}
			defer func() { err = closed(f.Close(), err) }()
			if transcript {
				a.noteLatest(args[0], f.ID())
				t, err := run.Conversation(c.Context(), f)
				if err != nil {
					return err
				}
				return a.showTranscript(t)
			}
			r, err := run.Show(c.Context(), f)
			if err != nil {
				return err
			}
			a.engine().ChildQuestions(c.Context(), f.Dir(), r.Questions)
			return a.put(r, func() { a.showRun(f.Dir(), r) })
		}}
	place.flags(c)
	c.Flags().BoolVar(&transcript, "transcript", false, "print the conversation instead")
	a.completions(c)
	return c
}

func (a *app) runsExportCommand() *cobra.Command {
	var place runPlace
	var out string
	var unverified bool
	c := &cobra.Command{Use: "export RUN -o FILE", Short: "Export a run's record and artifacts as a zip archive",
		Long: `Export verifies the record and writes it, with its content and artifacts, to one
zip archive. The same record always produces the same bytes. To check it elsewhere,
unzip it and run 'metier audit verify FOLDER/RUN'.` + aboutRun,
		Example: "  metier runs export latest -o run.zip\n  metier runs export latest -o - | ssh host 'cat > run.zip'",
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usage(c, errors.New("specify the archive with -o FILE, or use -o - for standard output"))
			}
			if out == "-" && a.json {
				return usage(c, errors.New("-o - and --json both use standard output: specify a file"))
			}
			if out == "-" && a.outTerminal() {
				return wrong("terminal", "specify a file with -o FILE, or pipe the output", "a zip archive cannot be printed in a terminal")
			}
			root, id, err := a.findOwn(place, args[0])
			if err != nil {
				return err
			}
			var b bytes.Buffer // whole before any byte goes out: a failed export leaves nothing half
			r, err := run.ExportAt(c.Context(), root, id, &b, a.engine().RunOptions(), &run.ExportOptions{Unverified: unverified})
			if err != nil {
				return err
			}
			if out == "-" {
				a.noteLatest(args[0], id)
			}
			return a.putExport(r, out, b.Bytes())
		}}
	place.flags(c)
	c.Flags().StringVarP(&out, "output", "o", "", "archive `file` to write; -: standard output")
	c.Flags().BoolVar(&unverified, "unverified", false, "export a record that fails verification, and list its problems in verify.json")
	a.completions(c)
	return c
}

func (a *app) putExport(r run.VerifyReport, out string, b []byte) error {
	if out == "-" {
		if _, err := a.Out.Write(b); err != nil {
			return err
		}
		a.warnExport(r)
		return nil
	}
	err := errOutput
	if !a.isOutput(a.env.Path(out)) {
		err = a.engine().WriteOutput(out, b, "")
	}
	if err != nil {
		hint := "use -o with a file in a writable folder, or -o - for standard output"
		return &metier.Error{Op: "export", Path: out, Kind: metier.Unavailable, Code: "export_unwritable", Hint: hint, Err: err}
	}
	a.warnExport(r)
	if a.json {
		return a.document(map[string]any{"run": r.ID, "file": a.env.Path(out), "bytes": len(b), "verified": r.OK, "problems": r.Problems})
	}
	_, err = fmt.Fprintf(a.Out, "exported run %s to %s (%s bytes)\n", r.ID, oneLine(out), plural.Thousands(int64(len(b))))
	return err
}

// warnExport reports that an exported record fails verification.
func (a *app) warnExport(r run.VerifyReport) {
	if !r.OK {
		fmt.Fprintf(a.Err, "warning: the record of run %s fails verification: %s, listed in the archive's verify.json\n", r.ID, plural.Of(len(r.Problems), "problem"))
	}
}
