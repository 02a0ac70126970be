package cli

import (
	"github.com/spf13/cobra"

	"metier/policy"
)

func (a *app) runsApproveCommand() *cobra.Command {
	var f answerFlags
	c := &cobra.Command{Use: "approve RUN", Short: "Approve a call that a run is waiting on",
		Long: `Approve the call that a run is waiting on. By default, the approval covers only
that call. If one of the skill's files changes, the run asks again. To continue
the run, use 'metier run --resume RUN'.` + aboutAnswer,
		Example: "  metier runs approve latest\n  metier runs approve latest --scope always\n  metier runs approve latest --question q-e33acb2b6745dced",
		Args:    oneRun,
		RunE:    func(c *cobra.Command, args []string) error { return a.answer(c.Context(), f, args[0], true) }}
	f.add(c)
	f.addScope(c)
	a.completions(c)
	return c
}

func (a *app) runsDenyCommand() *cobra.Command {
	var f answerFlags
	c := &cobra.Command{Use: "deny RUN", Short: "Deny a call that a run is waiting on",
		Long: `Deny the call that a run is waiting on. The model gets the denial as the call's
result. To continue the run, use 'metier run --resume RUN'.` + aboutAnswer,
		Example: "  metier runs deny latest\n  metier runs deny latest --question q-e33acb2b6745dced",
		Args:    oneRun,
		RunE:    func(c *cobra.Command, args []string) error { return a.answer(c.Context(), f, args[0], false) }}
	f.add(c)
	c.Flags().StringVar(&f.scope, "scope", policy.ScopeOnce, "`scope` of the answer: once, or session (this run)")
	a.completions(c)
	return c
}
