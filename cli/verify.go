package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"metier/install"
	"metier/internal/plural"
)

func (a *app) verifyCommand() *cobra.Command {
	var place installFlags
	c := &cobra.Command{Use: "verify [NAME...]", GroupID: "install", Short: "Compare installed skills with metier.lock",
		Long: `Verify compares each file of the installed skills with metier.lock. It also names
skills in the folder that are not in the lock; these are not an error.

Exit 0: the installed skills match the lock. 5: at least one differs.`,
		Example: "  metier verify\n  metier verify pdf --json",
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, err := a.installation(c.Context(), place, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			list, err := in.Verify(c.Context(), args)
			if err != nil {
				return err
			}
			return a.showVerified(list)
		}}
	place.flags(c)
	a.completions(c)
	return c
}

func differ(skills int) string {
	if skills == 1 {
		return "1 skill differs"
	}
	return plural.Of(skills, "skill") + " differ"
}

// verifiedDocument is the result of `verify`.
type verifiedDocument struct {
	OK     bool               `json:"ok"`
	Skills []install.Verified `json:"skills"`
}

func (a *app) showVerified(list []install.Verified) error {
	bad := 0
	t := table{heads: []string{"NAME", "STATE", "FILE", "SOURCE"}, width: a.columns()}
	for _, v := range list {
		source := ""
		if v.Entry != nil {
			source = v.Entry.Source.String()
		}
		if v.State != install.Intact && v.State != install.Unlocked {
			bad++
		}
		file := ""
		if v.Err != nil {
			file = v.Err.Error()
		}
		t.add(v.Name, string(v.State), file, source)
		if v.Entry != nil {
			for _, r := range v.Entry.Unmet {
				t.add("", "requires", r+", which is not installed", "")
			}
		}
		for _, f := range v.Files {
			t.add("", string(f.Action), f.Path, "")
		}
	}
	if err := a.put(verifiedDocument{bad == 0, list}, func() { t.print(a.Out, "") }); err != nil {
		return err
	}
	if bad == 0 {
		return nil
	}
	return &problem{exit: exitDrift, code: "skill_modified", err: fmt.Errorf("%s from the lock", differ(bad)),
		hint: "restore the files from version control, or install the skills again with 'metier add SOURCE --force'"}
}
