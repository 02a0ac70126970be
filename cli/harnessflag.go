package cli

import "github.com/spf13/pflag"

// harnessFlag is the flag of all commands that use skills.
func harnessFlag(fl *pflag.FlagSet, to *[]string) {
	fl.StringArrayVar(to, "harness", nil, "folder with a HARNESS.md, relative to the workspace (repeatable); see docs/HARNESS.md")
}
