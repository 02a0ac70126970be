package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/policy"
)

func (a *app) trustCommand() *cobra.Command {
	var place skillLocation
	var tier string
	var revoke bool
	c := &cobra.Command{Use: "trust NAME|PATH", GroupID: "skills", Short: "Trust a third-party skill until its files change",
		Long: `Trust records the digest of all of a skill's current files, and the tier that the
skill gets. Trust ends when one of the files changes. The skill then returns
to its root's tier, and a diagnostic reports this. Trust can raise a third-party
skill to the user or project tier, but never to org or builtin. The command does not run
anything. Read the skill first: metier show NAME --body.`,
		Example: "  metier trust table-report\n  metier trust third_party:report --tier project\n  metier trust table-report --revoke", Args: oneSkill,
		RunE: func(c *cobra.Command, args []string) error {
			if t := policy.Tier(tier); t != policy.User && t != policy.Project {
				return wrong("tier_not_given", "use user or project", "--tier %q cannot be assigned to a skill", tier)
			}
			sh, err := a.openIndex(c.Context(), place)
			if err != nil {
				return err
			}
			doc, err := sh.Trust(c.Context(), args[0], policy.Tier(tier), revoke)
			if err != nil {
				return err
			}
			return a.put(doc, func() { a.showTrusted(doc, revoke) })
		}}
	place.flags(c)
	c.Flags().StringVar(&tier, "tier", string(policy.User), "`tier` that the skill gets: user or project")
	c.Flags().BoolVar(&revoke, "revoke", false, "remove the trust")
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, a.completeWhich(func(sk metier.Skill) bool { return sk.Tier.Or() == policy.ThirdParty || revoke }))
	return c
}

func (a *app) showTrusted(doc engine.Trusted, revoke bool) {
	name := oneLine(doc.Name)
	switch {
	case revoke && !doc.Changed:
		fmt.Fprintf(a.Out, "%s was not trusted\n", name)
	case revoke:
		fmt.Fprintf(a.Out, "%s is no longer trusted\n", name)
	default:
		fmt.Fprintf(a.Out, "%s (%s) has the tier %s while its files match %s\n", name, oneLine(doc.ID), doc.Tier, a.short(doc.Tree))
	}
	a.noteKept(doc.File, doc.Kept)
}
