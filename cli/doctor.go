package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"metier/engine/doctor"
	"metier/internal/plural"
)

func (a *app) doctorCommand() *cobra.Command {
	var o doctor.Options
	c := &cobra.Command{Use: "doctor", GroupID: "setup", Short: "Check the configuration, skills, models, and records",
		Long: `Doctor checks the program, the configuration, the folders, the skills, and the
models that a run in this folder would use, and suggests a fix for each problem.
It contacts no services except Ollama on this machine.

Exit 1: there is a problem.`, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.showDoctor(append(a.hostChecks(), doctor.Run(c.Context(), a.engine(), o)...))
		}}
	c.Flags().StringVar(&o.Workspace, "workspace", "", "`folder` to check (default: the current one)")
	c.Flags().StringArrayVar(&o.Roots, "skills-root", nil, "skills `folder` (repeatable; default: the configured folders)")
	c.Flags().BoolVar(&o.ClearIndex, "clear-index", false, "remove the skill index first; it is rebuilt when needed")
	c.Flags().BoolVar(&o.ClearServers, "clear-mcp-cache", false, "remove the cached skills from MCP servers first")
	a.completions(c)
	return c
}

func (a *app) showDoctor(checks []doctor.Check) error {
	problems := 0
	t := table{}
	for i := range checks {
		x := &checks[i]
		if x.State == doctor.Problem {
			p := problemOf(x.Err)
			x.Detail, x.Hint = p.err.Error()+" ["+p.code+"]", p.hint
			problems++
		}
		x.Detail, x.Hint = asFlags(x.Detail), asFlags(x.Hint)
		detail := x.Detail
		if x.Hint != "" {
			detail += "; " + x.Hint
		}
		t.add(x.State, x.Name, detail)
	}
	err := a.put(map[string]any{"ok": problems == 0, "checks": checks}, func() { t.print(a.Out, "") })
	if err != nil || problems == 0 {
		return err
	}
	return &problem{exit: exitFailed, code: "doctor_problems", err: fmt.Errorf("doctor found %s", plural.Of(problems, "problem")), hint: "each line that starts with 'problem' suggests a fix"}
}

// hostChecks returns the checks of the program and its streams.
func (a *app) hostChecks() []doctor.Check {
	program := fmt.Sprintf("metier %s, %s, %s/%s, %s", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, plural.Of(runtime.NumCPU(), "processor"))
	terminal := doctor.Check{Name: "terminal", State: doctor.Note}
	switch {
	case a.asks():
		terminal.State, terminal.Detail = doctor.OK, "shows live progress and can ask questions"
	case a.Terminal:
		terminal.Detail = "shows live progress but cannot ask questions, because standard input is not a terminal: runs are batch runs"
	default:
		terminal.Detail = "not a terminal: progress is printed as plain lines, and batch runs answer no to every question"
	}
	return []doctor.Check{{Name: "program", State: doctor.OK, Detail: program}, terminal}
}
