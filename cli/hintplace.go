package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// placeNames are the flags that choose where a command reads skills and runs.
var placeNames = []string{"workspace", "artifact-root", "skills-root", "harness"}

// hinted matches a command in a hint: its words and arguments, up to the end of the quotation or of
// the clause.
var hinted = regexp.MustCompile("metier( (?:'[^']*'|[^\\s'`;,:]+(?::[^\\s'`;,:]+)*))+")

// placed completes the commands in a hint with the flags that chose the place of the current
// command, so that they work if they are copied. A command that names a run by its path needs none,
// and a hint to resume a run always does so if it is elsewhere.
func (a *app) placed(hint string) string {
	current := a.current.Load()
	if current == nil {
		return hint
	}
	return hinted.ReplaceAllStringFunc(hint, func(command string) string {
		c, args, err := current.Root().Find(strings.Fields(command)[1:])
		if err != nil || strings.Contains(command, "--resume") || strings.Contains(command, "--help") || !c.Runnable() || c == c.Root() || slices.ContainsFunc(args, func(s string) bool { return strings.Contains(s, "/") }) {
			return command
		}
		for _, name := range placeNames {
			if c.Flags().Lookup(name) != nil && !strings.Contains(command, "--"+name) {
				command += flagWords(current.Flags().Lookup(name))
			}
		}
		return command
	})
}

// flagWords returns a flag that was given as it can be typed.
func flagWords(f *pflag.Flag) string {
	if f == nil || !f.Changed {
		return ""
	}
	values := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	return flagged("--"+f.Name, values)
}

// noteCurrent makes every command note that it is the current one, and clean up after killed ones.
func (a *app) noteCurrent(root *cobra.Command) {
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		a.current.Store(c)
		a.engine().Sweep(c.Context())
	}
}
