package cli

import "github.com/spf13/cobra"

// completions adds completion of flag values to a command.
func (a *app) completions(c *cobra.Command) {}
