package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/install"
	"metier/internal/plural"
	"metier/internal/termtext"
)

func (a *app) updateCommand() *cobra.Command {
	var place installFlags
	var force, check bool
	c := &cobra.Command{Use: "update [NAME...]", GroupID: "install", Short: "Update installed skills from their sources",
		Long: `Update compares installed skills with what their sources contain now: the newest commit
of their branch or tag, the artifact that their tag in a registry names, or the current
files of their folder. It shows what changes,
new permissions and programs first, and asks before it changes anything. All skills
are updated together, or none. Skills of a full commit or a digest stay as they are.

With --check, it changes nothing. Exit 0: the skills are current. 1: at least one has
an update.`,
		Example: "  metier update\n  metier update pdf --yes\n  metier update --check",
		RunE: func(c *cobra.Command, args []string) (err error) {
			if check && (force || place.yes) {
				return usage(c, errors.New("--check changes nothing, so it takes neither --yes nor --force"))
			}
			in, err := a.installation(c.Context(), place, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			p, err := in.Update(c.Context(), args, force || check)
			a.fetched()
			if err != nil {
				return err
			}
			place.accept(p)
			if check {
				return errors.Join(a.checkUpdates(in, p), p.Discard())
			}
			if err := a.showDiffs(p); err != nil {
				return errors.Join(err, p.Discard())
			}
			return a.change(c.Context(), in, p, place.yes)
		}}
	place.flags(c)
	fl := c.Flags()
	place.checked(c)
	place.network(c)
	fl.BoolVar(&force, "force", false, "also replace skills that were changed after they were installed")
	fl.BoolVar(&check, "check", false, "report which skills have updates, and change nothing")
	a.completions(c)
	return c
}

// updatesDocument is the result of `update --check`.
type updatesDocument struct {
	Current bool         `json:"current"`
	Skills  []updateItem `json:"skills"`
}

type updateItem struct {
	Name     string               `json:"name"`
	Source   install.Source       `json:"from"`
	Update   bool                 `json:"update"`
	Pinned   bool                 `json:"pinned"`   // its source is a full commit or a digest
	Modified bool                 `json:"modified"` // the installed files differ from the lock
	Commit   string               `json:"commit,omitempty"`
	Digest   string               `json:"digest,omitempty"` // of the artifact
	Files    []install.FileChange `json:"files,omitempty"`
	// SignersWere are the signers in the lock, if the update has none of them.
	SignersWere []string `json:"signersWere,omitempty"`
}

func (a *app) checkUpdates(in *engine.Installation, p *install.Plan) error {
	doc := updatesDocument{Skills: []updateItem{}}
	t := table{heads: []string{"NAME", "STATE", "FILES", "SOURCE"}, right: []int{2}, width: a.columns()}
	old := 0
	for _, c := range p.Changes {
		item := updateItem{Name: c.Name, Source: c.Entry.Source, Update: c.Action != install.Keep, Pinned: c.Entry.Pinned(), Modified: c.Modified, Commit: c.Entry.Commit, Files: c.Files, SignersWere: c.SignersWere()}
		if c.Entry.Kind == install.OCI {
			item.Digest = c.Entry.Digest
		}
		state, files := "current", ""
		switch {
		case item.Update:
			old++
			state, files = "update", fmt.Sprint(len(c.Files))
			if c.Modified {
				state = "update, modified here"
			}
			if len(item.SignersWere) > 0 {
				state += ", other signer"
			}
		case item.Pinned:
			state = "pinned"
		}
		doc.Skills = append(doc.Skills, item)
		t.add(c.Name, state, files, c.Entry.Source.String())
	}
	doc.Current = old == 0
	a.showNotes(p)
	if err := a.put(doc, func() {
		if len(doc.Skills) == 0 {
			fmt.Fprintf(a.Err, "no skills in %s\n", oneLine(in.LockFile))
			return
		}
		t.print(a.Out, "")
	}); err != nil || old == 0 {
		return err
	}
	return &problem{exit: exitFailed, code: "updates_available", err: fmt.Errorf("%s of %s %s an update", plural.Of(old, "skill"), oneLine(in.Dir), has(old)), hint: "'metier update' shows and installs them"}
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// showDiffs prints what a plan changes in each installed skill: first the tools it allows and its
// programs.
func (a *app) showDiffs(p *install.Plan) error {
	if a.json {
		return nil
	}
	for _, c := range p.Changes {
		if c.Action != install.Replace {
			continue
		}
		d, err := p.Diff(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s%s\n", c.Name, versions(c))
		if were := c.SignersWere(); len(were) > 0 {
			fmt.Fprintf(a.Out, "  ! signers: %s → %s\n", tools(were), tools(c.Entry.Signers))
		}
		if d.Tools {
			fmt.Fprintf(a.Out, "  ! allowed-tools: %s → %s\n", tools(d.ToolsWere), tools(d.ToolsNow))
		}
		for _, name := range d.Requires {
			fmt.Fprintf(a.Out, "  ! requires %s\n", oneLine(name))
		}
		for _, name := range d.Releases {
			fmt.Fprintf(a.Out, "    no longer requires %s\n", oneLine(name))
		}
		for _, f := range d.Files {
			a.showFileDiff(f)
		}
		fmt.Fprintln(a.Out)
	}
	return nil
}

// versions returns the old and the new commit of a skill from a repository, or digest of one from a
// registry.
func versions(c install.Change) string {
	const short = 12
	if c.Was == nil || len(c.Was.Revision()) < short || len(c.Entry.Revision()) < short {
		return ""
	}
	cut := func(e install.Entry) string { return strings.TrimPrefix(e.Revision(), "sha256:")[:short] }
	return fmt.Sprintf(" %s → %s", cut(*c.Was), cut(c.Entry))
}

func tools(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return termtext.Line(strings.Join(list, " "))
}

func (a *app) showFileDiff(f install.FileDiff) {
	mark := " "
	if f.Program {
		mark = "!"
	}
	kind := ""
	if f.Program {
		kind = " (program)"
	}
	if f.Note != "" {
		kind += ": " + f.Note
	}
	fmt.Fprintf(a.Out, "  %s %s %s%s\n", mark, f.Action, termtext.Line(f.Path), kind)
	for line := range strings.Lines(f.Text) {
		if !strings.HasPrefix(line, "--- ") && !strings.HasPrefix(line, "+++ ") {
			fmt.Fprintf(a.Out, "      %s\n", termtext.Escape(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")))
		}
	}
	if f.Cut > 0 {
		fmt.Fprintf(a.Out, "      … %s not shown\n", plural.Of(f.Cut, "more line"))
	}
}

func (a *app) installCommand() *cobra.Command {
	var place installFlags
	var frozen bool
	c := &cobra.Command{Use: "install", GroupID: "install", Short: "Install the skills of metier.lock",
		Long: `Install puts the skills of metier.lock that are missing into the skills folder, for
example after a clone of the project. It fetches the locked commits and files, and
fails if they do not match the lock, which does not change. It does not ask,
because the lock is what was agreed to. Skills that were changed are kept.

With --frozen, for builds, a missing lock and a changed skill are errors too.

Exit 0: the skills of the lock are installed. 5: files differ from the lock, and
nothing was changed.`,
		Example: "  metier install\n  metier install --frozen", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			in, err := a.installation(c.Context(), place, false)
			switch none := metier.CodeOf(err) == "nothing_installed"; {
			case none && frozen:
				return &problem{exit: exitDrift, code: "lock_missing", err: err, hint: "commit metier.lock, or add skills first"}
			case none:
				return a.put(changeDocument{Skills: []changeItem{}}, func() { fmt.Fprintln(a.Err, "nothing to install: there is no metier.lock, or it has no skills") })
			}
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			p, err := in.Restore(c.Context(), frozen)
			a.fetched()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(p.Changes, install.Change.Changes) && !a.json {
				a.showNotes(p)
				fmt.Fprintf(a.Err, "nothing to install: %s\n", plural.Of(len(p.Changes), "skill")+" in "+oneLine(in.LockFile))
				return p.Discard()
			}
			return a.change(c.Context(), in, p, true)
		}}
	place.place(c)
	place.network(c)
	c.Flags().BoolVar(&frozen, "frozen", false, "also fail if the lock is missing, or an installed skill was changed")
	a.completions(c)
	return c
}
