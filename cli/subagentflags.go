package cli

import "github.com/spf13/pflag"

// subagentFlags are the flags of runs that may begin children.
type subagentFlags struct {
	profiles []string
	dirs     []string
}

func (f *subagentFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.profiles, "allow-subagent-profile", nil, "let the model hand tasks to subagents of this profile (repeatable), see 'metier subagents'")
	fl.StringArrayVar(&f.dirs, "subagent-profiles", nil, "folder of more profiles, NAME.yaml each (repeatable)")
}
