package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"metier"
	"metier/userstate"
)

func (a *app) runsApprovalsCommand() *cobra.Command {
	var revoke []string
	c := &cobra.Command{Use: "approvals", Short: "List or revoke permanent script approvals",
		Long: `Approvals lists the permanent approvals (scope "always"). Each applies to one script
until one of the skill's files, the isolation, or the network access changes. They
are stored in approvals.json in metier's state folder. Revoking an approval does not
affect the run in which it was given.`,
		Example: "  metier runs approvals\n  metier runs approvals --revoke q-e33acb2b6745dced\n  metier runs approvals --revoke report --json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(revoke) > 0 {
				return a.revoke(c.Context(), revoke)
			}
			return a.listApprovals()
		}}
	c.Flags().StringArrayVar(&revoke, "revoke", nil, "revoke one `approval` by ID, or all approvals of a skill by its name (repeatable)")
	a.completions(c)
	_ = c.RegisterFlagCompletionFunc("revoke", func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		list, _ := a.engine().State().Approvals() // completion shows no errors
		var out []cobra.Completion
		for _, p := range list {
			out = append(out, cobra.CompletionWithDesc(p.ID, oneLine(p.Covers["skill"]+" "+p.Covers["script"])))
		}
		return starting(out, typed), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func (a *app) revoke(ctx context.Context, what []string) error {
	list, err := a.engine().State().Approvals()
	if err != nil {
		return err
	}
	var gone []userstate.Approval
	for _, w := range what {
		n := len(gone)
		for _, p := range list {
			if p.Names(w) {
				gone = append(gone, p)
			}
		}
		if len(gone) == n {
			return &metier.Error{Op: "approvals", Skill: w, Kind: metier.NotFound, Code: "approval_not_found", Hint: "'metier runs approvals' lists the approvals", Err: errors.New("no approval has this ID or is for a skill with this name")}
		}
	}
	kept, err := a.engine().State().Revoke(ctx, func(p userstate.Approval) bool { return slices.ContainsFunc(what, p.Names) })
	a.noteCopy(a.engine().State().ApprovalFile(), kept)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"revoked": gone})
	}
	for _, p := range gone {
		fmt.Fprintf(a.Out, "%s %s is no longer approved\n", oneLine(p.Covers["skill"]), oneLine(p.Covers["script"]))
		if p.Run != "" {
			fmt.Fprintf(a.Out, "  if run %s continues, it still applies there\n", oneLine(p.Run))
		}
	}
	return nil
}

func (a *app) listApprovals() error {
	list, err := a.engine().State().Approvals()
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"approvals": append([]userstate.Approval{}, list...)})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Out, "there are no permanent approvals")
		return err
	}
	t := table{heads: []string{"ID", "SKILL", "SCRIPT", "TREE", "SANDBOX", "NETWORK", "BY", "SINCE"}}
	for _, p := range list {
		t.add(p.ID, p.Covers["skill"], p.Covers["script"], a.short(p.Covers["tree"]), p.Covers["sandbox"], p.Covers["network"], p.By, localTime(p.At))
	}
	t.print(a.Out, "")
	return nil
}

// noteCopy reports the backup copy of a file that could not be parsed.
func (a *app) noteCopy(file, kept string) {
	if kept != "" && !a.json {
		fmt.Fprintf(a.Err, "note: %s could not be parsed; a copy is in %s\n", oneLine(file), oneLine(kept))
	}
}
