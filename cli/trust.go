package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"metier"
	"metier/policy"
	"metier/userstate"
)

// trustedSkill is the output of `trust --json`.
type trustedSkill struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Dir     string `json:"dir"`
	Tree    string `json:"tree"` // digest over all files that are trusted
	Tier    string `json:"tier"` // what they count as now
	Root    string `json:"root"` // tier of the root
	Files   int    `json:"files"`
	Changed bool   `json:"changed"`
	File    string `json:"file"`
	Kept    string `json:"kept,omitempty"`
}

func (a *app) trustCommand() *cobra.Command {
	var place skillLocation
	var tier string
	var revoke bool
	c := &cobra.Command{Use: "trust NAME|PATH", GroupID: "skills", Short: "Trust a third-party skill until its files change",
		Long: `Trust records the digest of all of a skill's current files, and the tier that the
skill gets. The trust ends when one of the files changes. The skill then returns
to its root's tier, and a diagnostic reports this. Trust can raise a third-party
skill to user or project, never to org or builtin. The command does not run
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
			doc, err := sh.trust(c.Context(), args[0], policy.Tier(tier), revoke)
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

// trust assigns a tier to the files of a skill, or revokes it.
func (sh *skillIndex) trust(ctx context.Context, subject string, tier policy.Tier, revoke bool) (trustedSkill, error) {
	own := sh.a.engine().State().Own()
	if len(own) == 0 {
		return trustedSkill{}, userstate.ErrNoHome
	}
	file := own[0]
	doc := trustedSkill{File: file.Path}
	sk, err := sh.one(ctx, subject)
	if err != nil {
		if revoke {
			return sh.distrust(ctx, file, subject, err)
		}
		return doc, err
	}
	doc.ID, doc.Name, doc.Dir, doc.Root = sk.ID.String(), sk.Name, sk.Dir(), string(sh.rootTier(sk))
	if doc.Tier = doc.Root; !revoke {
		if doc.Root != string(policy.ThirdParty) {
			return doc, wrong("tier_not_given", "no change is needed: only third_party skills are less trusted than the user's skills",
				"skill %q already has its root's tier, %s", sk.Name, doc.Root)
		}
		if sk, err = sh.Snapshot.Index(ctx, sk); err != nil {
			return doc, err
		}
		doc.Tree, doc.Tier, doc.Files = string(sk.Tree), string(tier), len(sk.Resources)
	}
	if err := sh.a.engine().Claim(ctx, file.Path); err != nil {
		return doc, err
	}
	if revoke {
		doc.Changed, doc.Kept, err = file.Distrust(ctx, sk)
	} else {
		doc.Changed, doc.Kept, err = file.Trust(ctx, sk, tier, sh.a.now())
	}
	return doc, err
}

// distrust revokes the trust of a skill that no longer exists.
func (sh *skillIndex) distrust(ctx context.Context, file userstate.File, subject string, missing error) (trustedSkill, error) {
	doc := trustedSkill{Name: subject, File: file.Path}
	var err error
	doc.Changed, doc.Kept, err = file.DistrustMissing(ctx, subject)
	if err == nil && !doc.Changed {
		err = missing
	}
	return doc, err
}

// rootTier returns the tier of a skill's root.
func (sh *skillIndex) rootTier(sk metier.Skill) policy.Tier {
	for _, m := range sh.Snapshot.Mounts() {
		if m.Label == sk.ID.Source {
			return m.Tier.Or()
		}
	}
	return policy.ThirdParty
}

func (a *app) showTrusted(doc trustedSkill, revoke bool) {
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
