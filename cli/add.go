package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"metier/engine"
	"metier/install"
	"metier/scan"
	"metier/settings"
	"metier/signature"
)

// installFlags choose the skills folder in which skills are installed.
type installFlags struct {
	workspace, profile string
	set                []string
	global, yes        bool
	harness            bool
	findings           bool
	signers, policies  []string
	offline            bool
}

// network adds the flag of a command that fetches skills.
func (f *installFlags) network(c *cobra.Command) {
	c.Flags().BoolVar(&f.offline, "offline", false, "use no network; archives and artifacts with a locked digest can come from earlier downloads")
}

// scanned adds the flag of a command that scans files.
func (f *installFlags) scanned(c *cobra.Command) {
	c.Flags().BoolVar(&f.findings, "allow-findings", false, "also install skills in which the scanner finds signs of an attack")
}

// checked adds the flags of a command that checks new files before it installs them.
func (f *installFlags) checked(c *cobra.Command) {
	f.scanned(c)
	c.Flags().StringArrayVar(&f.signers, "accept-signer", nil, "accept this `ID` as the new signer of a skill that another one signed before, or none (repeatable)")
}

// accept sets what the flags accept.
func (f *installFlags) accept(p *install.Plan) {
	p.AllowFindings, p.AcceptSigners = f.findings, f.signers
}

func (f *installFlags) flags(c *cobra.Command) {
	f.place(c)
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
}

// place adds the flags of a command that does not ask.
func (f *installFlags) place(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVarP(&f.global, "global", "g", false, "use the user's skills folder, ~/.agents/skills, instead of the project's")
	fl.BoolVar(&f.harness, "harness", false, "use harnesses, in .agents/harnesses, instead of skills")
	fl.StringVar(&f.workspace, "workspace", "", "project `folder` (default: the current one)")
	fl.StringVar(&f.profile, "profile", "", "settings `profile`; see 'metier profile list'")
	fl.StringArrayVar(&f.policies, "policy", nil, "policy `file` with sources and signers of skills (repeatable); see docs/POLICY.md")
	fl.StringArrayVar(&f.set, "set", nil, "change a setting: `name=value` (repeatable)")
}

// installation opens the skills folder. With create, it need not exist.
func (a *app) installation(ctx context.Context, f installFlags, create bool) (*engine.Installation, error) {
	layer, err := setFlag(f.set)
	if err != nil {
		return nil, err
	}
	open := a.engine().Install
	if f.harness {
		open = a.engine().InstallHarnesses
	}
	in, err := open(ctx, engine.Request{Workspace: f.workspace, Profile: f.profile, Policies: f.policies, Layers: []settings.Layer{layer}, Offline: f.offline}, f.global, create)
	if err == nil && in.Recovered {
		fmt.Fprintln(a.Err, "note: an interrupted change was completed")
	}
	return in, err
}

// fetching shows what git reports on one line of a terminal, in place of the line before.
func (a *app) fetching(line string) {
	if a.Terminal && !a.json {
		const narrow = 79
		fmt.Fprintf(a.Err, "\r\x1b[K%s\r", cutLine(line, narrow))
	}
}

// cutLine cuts a line that is safe to print to a width.
func cutLine(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return line
}

// fetched removes the line that fetching shows.
func (a *app) fetched() {
	if a.Terminal && !a.json {
		fmt.Fprint(a.Err, "\x1b[K")
	}
}

func (a *app) addCommand() *cobra.Command {
	var place installFlags
	var r install.Request
	c := &cobra.Command{Use: "add SOURCE", GroupID: "install", Short: "Install skills",
		Long: `Add copies skills into the project's skills folder, .agents/skills, and records in
metier.lock where they came from and what their files are. It shows what it would
install, and asks first. Nothing of a skill runs.

SOURCE is one of these:
  a folder, such as ./my-skill
  an archive, such as ./my-skill.zip or https://example.com/my-skill.zip
  a SKILL.md, such as https://example.com/my-skill/SKILL.md
  a site with an index of skills, such as https://example.com
  a repository: OWNER/REPO on GitHub, or an address with https, ssh, or file.
  Add @REF for a branch, a tag, or a full commit, and #FOLDER for a folder.
  an artifact in a registry, such as oci://ghcr.io/acme/pdf:1.2.
  Replace :TAG by @sha256:DIGEST for a digest, and add #FOLDER for a folder.

metier.lock has the commit, or the digest of what was downloaded. If the source
contains several skills, choose some with --skill, or all with --all.

A skill can require others in metadata.requires of its SKILL.md. Those of the same
source are installed with it. Nothing is fetched from other sources: add them first.

With --harness, it installs harnesses, folders with a HARNESS.md, into
.agents/harnesses, and 'metier run --harness NAME' finds them. One that is not valid
is refused, with all its problems.

Repositories are fetched with git, and with the credentials, proxies, and ssh settings
of your own git configuration. Hooks, filters, submodules, and links of a repository
have no effect. Addresses of private hosts are allowed.

Registries are used with the credentials in your Docker configuration: sign in with
'docker login'.`,
		Example: "  metier add ./my-skill\n  metier add ~/skills --skill pdf --skill docx\n  metier add ./pdf.zip\n  metier add https://example.com --skill pdf\n  metier add acme/skills@v1.2#skills/pdf\n  metier add oci://ghcr.io/acme/pdf:1.2\n  metier add git@git.example.com:team/skills.git --all --global",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, err := a.installation(c.Context(), place, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			if r.Source, err = in.Source(args[0], a.Dir); err != nil {
				return err
			}
			p, err := in.Prepare(c.Context(), r, in.Settings)
			a.fetched()
			if err != nil {
				return err
			}
			place.accept(p)
			return a.change(c.Context(), in, p, place.yes)
		}}
	place.flags(c)
	fl := c.Flags()
	fl.StringArrayVar(&r.Skills, "skill", nil, "`name` or folder of a skill in the source (repeatable)")
	fl.BoolVar(&r.All, "all", false, "install all skills of the source")
	fl.StringArrayVar(&r.Agents, "agent", nil, "`name` of an agent whose skills folder gets a link to each skill (repeatable)")
	place.checked(c)
	place.network(c)
	fl.BoolVar(&r.SkipRequirements, "skip-requirements", false, "do not install the skills that the chosen ones require")
	fl.BoolVar(&r.Force, "force", false, "replace skills that come from another source, or were changed")
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
	return c
}

func (a *app) removeCommand() *cobra.Command {
	var place installFlags
	var force bool
	c := &cobra.Command{Use: "remove NAME...", GroupID: "install", Short: "Remove installed skills",
		Long: `Remove deletes skills that 'metier add' installed, and their entries in metier.lock.
It does not remove skills that were changed after they were installed, or that other
installed skills require, except with --force.`,
		Example: "  metier remove pdf\n  metier remove pdf docx --yes", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, err := a.installation(c.Context(), place, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			p, err := in.Remove(c.Context(), args, force)
			if err != nil {
				return err
			}
			return a.change(c.Context(), in, p, place.yes)
		}}
	place.flags(c)
	c.Flags().BoolVar(&force, "force", false, "also remove skills that were changed, or that others require")
	a.completions(c)
	return c
}

func (a *app) adoptCommand() *cobra.Command {
	var place installFlags
	c := &cobra.Command{Use: "adopt [NAME...]", GroupID: "install", Short: "Add skills of the folder to metier.lock",
		Long: `Adopt adds skills that are in the skills folder to metier.lock, as they are. Where they
came from is taken from the notes that the npm packages skills and openskills leave.
Without a name, all skills that are not in the lock are adopted. Their files are
scanned like those of new skills.`,
		Example: "  metier adopt\n  metier adopt pdf --yes\n  metier adopt --global",
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, err := a.installation(c.Context(), place, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			p, err := in.Adopt(c.Context(), args)
			if err != nil {
				return err
			}
			p.AllowFindings = place.findings
			return a.change(c.Context(), in, p, place.yes)
		}}
	place.flags(c)
	place.scanned(c)
	a.completions(c)
	return c
}

func (a *app) syncCommand() *cobra.Command {
	var place installFlags
	var agents []string
	c := &cobra.Command{Use: "sync", GroupID: "install", Short: "Link installed skills into other agents' folders",
		Long: `Sync creates the missing links to the skills in metier.lock in the skills folders of
other agents. With --agent, all installed skills get a link in that agent's folder.
Skills are not copied: all agents use the same files.`,
		Example: "  metier sync --agent claude\n  metier sync --agent cursor --agent codex --global", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			in, err := a.installation(c.Context(), place, false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			p, err := in.Relink(agents)
			if err != nil {
				return err
			}
			return a.change(c.Context(), in, p, place.yes)
		}}
	place.flags(c)
	c.Flags().StringArrayVar(&agents, "agent", nil, "`name` of an agent whose skills folder gets a link to each skill (repeatable)")
	a.completions(c)
	return c
}

// changeDocument is the result of a command that changes installed skills.
type changeDocument struct {
	Folder  string       `json:"folder"`
	Lock    string       `json:"lock"`
	Changed bool         `json:"changed"`
	Skills  []changeItem `json:"skills"`
}

type changeItem struct {
	Name   string         `json:"name"`
	Action install.Action `json:"action"`
	Entry  *install.Entry `json:"entry,omitempty"`    // new
	By     []string       `json:"neededBy,omitempty"` // skills that require it, if it was not chosen
	Asks   *asked         `json:"skill,omitempty"`    // of an added or replaced skill
	Diff   *install.Diff  `json:"diff,omitempty"`     // of an installed skill that is replaced
	Scan   *scan.Report   `json:"scan,omitempty"`     // of new files
	// SignersWere are the signers in the old lock, if the skill has none of them any more.
	SignersWere []string          `json:"signersWere,omitempty"`
	Signature   *signature.Result `json:"signature,omitempty"`
}

// asked is what a skill declares that it needs, and what it contains that can run.
type asked struct {
	Compatibility string   `json:"compatibility"`
	Requires      []string `json:"requires"`
	AllowedTools  []string `json:"allowedTools"`
	Programs      []string `json:"programs"`
}

// change shows a plan, asks, and makes it.
func (a *app) change(ctx context.Context, in *engine.Installation, p *install.Plan, yes bool) error {
	doc := changeDocument{Folder: in.Dir, Lock: in.LockFile, Skills: []changeItem{}}
	for _, c := range p.Changes {
		item := changeItem{Name: c.Name, Action: c.Action, By: c.NeededBy, Scan: c.Scan, SignersWere: c.SignersWere(), Signature: c.Signature}
		if c.Action != install.Remove {
			item.Entry = &c.Entry
		}
		if c.Action == install.Add || c.Action == install.Replace {
			front := c.Skill.Head.Front
			item.Asks = &asked{front.Compatibility, append([]string{}, front.Requires...), append([]string{}, front.AllowedTools...), append([]string{}, c.Programs()...)}
		}
		if a.json && c.Action == install.Replace {
			d, err := p.Diff(c)
			if err != nil {
				return errors.Join(err, p.Discard())
			}
			item.Diff = &d
		}
		doc.Skills = append(doc.Skills, item)
	}
	if len(p.Changes) == 0 {
		return errors.Join(a.put(doc, func() { fmt.Fprintf(a.Err, "nothing to change in %s\n", oneLine(in.Dir)) }), p.Discard())
	}
	doc.Changed = slices.ContainsFunc(p.Changes, install.Change.Changes)
	if !a.json {
		a.showChanges(p)
	}
	a.showNotes(p)
	if err := p.Check(); err != nil {
		return errors.Join(err, p.Discard())
	}
	agreed, err := a.agreed(ctx, doc, yes)
	if err != nil || !agreed {
		return errors.Join(err, p.Discard())
	}
	if err := p.Apply(ctx); err != nil {
		return err
	}
	end := "done"
	if !doc.Changed {
		end = "no files changed"
	}
	return a.put(doc, func() { fmt.Fprintf(a.Err, "%s; see %s\n", end, oneLine(in.LockFile)) })
}

// showNotes prints the notes of a plan.
func (a *app) showNotes(p *install.Plan) {
	for _, n := range p.Notes {
		fmt.Fprintln(a.Err, "note: "+oneLine(n))
	}
}

// agreed asks whether to make a change, unless there is nothing to ask.
func (a *app) agreed(ctx context.Context, doc changeDocument, yes bool) (bool, error) {
	return a.consents(ctx, fmt.Sprintf("Change %s?", oneLine(doc.Folder)), yes || !doc.Changed)
}

// consents asks a question that the user can answer in advance.
func (a *app) consents(ctx context.Context, question string, yes bool) (bool, error) {
	if yes {
		return true, nil
	}
	if !a.asks() {
		return false, &problem{exit: exitUsage, code: "confirmation_needed", err: errors.New("cannot ask for confirmation without a terminal"), hint: "confirm the change with --yes"}
	}
	yes, err := a.confirms(ctx, question)
	if errors.Is(err, io.EOF) {
		err = nil // no answer is no
	}
	if err == nil && !yes {
		fmt.Fprintln(a.Err, "nothing was changed")
	}
	return yes, err
}
