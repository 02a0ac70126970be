package cli

import "github.com/spf13/cobra"

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{Use: "audit", GroupID: "proof", Short: "Being written", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
