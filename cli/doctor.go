package cli

import "github.com/spf13/cobra"

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", GroupID: "proof", Short: "Being written", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
