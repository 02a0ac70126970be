package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"metier/install"
	"metier/settings"
)

func (a *app) signCommand() *cobra.Command {
	var key, profile string
	c := &cobra.Command{Use: "sign FOLDER", GroupID: "install", Short: "Sign a skill",
		Long: `Sign writes a signature of the skill in a folder beside its SKILL.md. It covers the
names, contents, and execute bits of all other files. Sign again after each change.

The key is an SSH private key, or a secret key of minisign. It must not have a
password. With other keys, sign the statement with the program that has the key:
without --key, sign prints it, and writes nothing.`,
		Example: "  metier sign ./pdf --key ~/.ssh/id_ed25519\n  metier sign ./pdf >statement\n  ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n metier-skill statement\n  mv statement.sig pdf/SKILL.sig",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			set, err := profileSettings(cmp.Or(profile, settings.DefaultProfile))
			if err != nil {
				return err
			}
			doc, err := install.Sign(c.Context(), a.env.Path(args[0]), a.env.Path(key), set)
			if err != nil {
				return err
			}
			for _, n := range doc.Notes {
				fmt.Fprintln(a.Err, "note: "+oneLine(n))
			}
			return a.put(doc, func() {
				if key == "" {
					a.Out.Write(doc.Statement.Text())
					return
				}
				fmt.Fprintf(a.Out, "%s: %s\n", oneLine(doc.File), doc.Statement.Tree)
			})
		}}
	c.Flags().StringVar(&key, "key", "", "`file` of a private key")
	c.Flags().StringVar(&profile, "profile", "", "settings `profile` by which the skill must load; see 'metier profile list'")
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
	return c
}
