package cli

import "github.com/spf13/cobra"

func (a *app) runsCommand() *cobra.Command {
	return &cobra.Command{Use: "runs", GroupID: "proof", Short: "Being written", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
