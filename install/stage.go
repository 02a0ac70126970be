package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confusable"
	"metier/internal/digest"
	"metier/scan"
	"metier/settings"
	"metier/signature"
	"metier/skillmd"
)

// Action is what a change does to a skill.
type Action string

// The actions.
const (
	Add     Action = "add"
	Replace Action = "replace"
	Keep    Action = "keep" // the files are the same; the entry of the lock may differ
	Remove  Action = "remove"
	Adopt   Action = "adopt" // the files stay, and the lock gets an entry
)

// Plan is a change of a store that was checked, and was not made yet.
type Plan struct {
	AllowFindings bool     // install skills that the scanner takes for dangerous
	AcceptSigners []string // IDs of new signers of skills that others signed before; see also Unsigned
	Changes       []Change // by name
	Notes         []string // about sources; safe to print
	store         *Store
	id            string
	others        *confusable.Names // of the skills in the store, and of the plan; nil: not read yet
}

// Change is what a plan does to one skill.
type Change struct {
	Name     string
	Action   Action
	Skill    metier.Skill // as it was found; empty if it is removed
	Entry    Entry        // of the new lock
	Was      *Entry       // of the old lock; nil: it is not there
	Files    []FileChange // by path; none if the files are the same
	Bytes    int64        // of all new files
	Modified bool         // the installed files differ from the lock
	Links    []string     // links that are created
	NeededBy []string     // skills that require it, if it was not chosen
	Scan     *scan.Report // of the new files; nil if they are the same
	unusable bool         // it is kept, but is no skill, and gets no new links
	// Signature is what is known about the signers of the skill; nil if it is removed, or was not fetched.
	Signature *signature.Result
}

// Changes reports whether the change changes a file. Otherwise, only the lock may change.
func (c Change) Changes() bool { return c.Action != Keep || len(c.Links) > 0 }

// FileChange is a file that differs.
type FileChange struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
}

// Request is what to install.
type Request struct {
	Source Source
	Skills []string // by name, or by folder in the source; none: the only one
	All    bool     // every skill of the source
	Force  bool     // replace a skill of another source, and one that was modified
	Agents []string // agents whose folders link to the skills
	// SkipRequirements installs the skills without those that they require and that are not chosen.
	SkipRequirements bool

	validation settings.InstallValidation // "" is strict
	harness    settings.Harness           // how harnesses are read
}

// Prepare fetches what a request asks for, and stages it, with the skills of the same source that the
// chosen ones require. set are the settings by which the skills would be loaded. Apply or Discard ends
// the plan.
func (s *Store) Prepare(ctx context.Context, r Request, set settings.Settings) (_ *Plan, err error) {
	if r.Source.Kind == Index && r.Source.Path != "" && len(r.Skills) == 0 { // an entry can require others
		r.Skills, r.Source.Path = []string{r.Source.Path}, ""
	}
	r.validation, r.harness = set.Install.Validation, set.Harness
	o := FetchOptions{Skills: r.Skills, All: r.All}
	found, skills, err := s.reach(ctx, r.Source, o, set, r, func(f *Found) ([]metier.Skill, error) { return f.Choose(r.Skills, r.All) })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	if r.Source.Partial {
		found.Notes = append(found.Notes, r.Source.partialNote())
	}
	return s.Stage(ctx, found, skills, r)
}

// Stage copies skills, and the skills of the same source that they require, into the store's staging folder,
// and checks the copies. It fails if one of them cannot be installed. Apply or Discard ends the plan.
func (s *Store) Stage(ctx context.Context, f *Found, skills []metier.Skill, r Request) (*Plan, error) {
	n := s.needsOf(f, skills, r.SkipRequirements)
	if err := n.err(); err != nil {
		return nil, err
	}
	p := &Plan{Notes: f.Notes, store: s, id: s.o.ID()}
	staged := map[string]string{} // paths of skills in the source, by the folder that they get
	for _, sk := range skills {
		p.names(ctx).Add(sk.Name)
	}
	for _, sk := range skills {
		c, err := p.stage(ctx, f, sk, r)
		if err != nil {
			return nil, errors.Join(about(sk, err), p.Discard())
		}
		folded := strings.ToLower(c.Name)
		if other, ok := staged[folded]; ok {
			return nil, errors.Join(metier.Errorf(metier.Invalid, "skill_ambiguous", "install one of them", "%s and %s have the same name", other, sk.ID.Path), p.Discard())
		}
		staged[folded] = sk.ID.Path
		n.apply(&c)
		p.Changes = append(p.Changes, c)
	}
	err := p.stageNeeded(ctx, n, r)
	if err == nil {
		err = p.order()
	}
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	return p, nil
}

// order sorts the changes, checks their links, and notes what is left over.
func (p *Plan) order() error {
	p.noteLeftOver()
	slices.SortFunc(p.Changes, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	for i := range p.Changes {
		c := &p.Changes[i]
		create, _, err := p.store.relink(*c)
		if err != nil {
			return err
		}
		for _, l := range create {
			there, err := p.store.linked(l)
			if err != nil {
				return err
			}
			if !there {
				c.Links = append(c.Links, l.at())
			}
		}
		if c.Action == Keep && len(c.Links) > 0 && !p.store.hasSkill(c.Name) {
			c.Links, c.unusable = nil, true
			p.Notes = append(p.Notes, fmt.Sprintf("skill %q is not linked: %s is not a folder with a SKILL.md", c.Name, p.store.path(c.Name)))
		}
	}
	return nil
}

// about adds the skill to an error.
func about(sk metier.Skill, err error) error {
	if e, ok := errors.AsType[*metier.Error](err); ok && e.Skill == "" {
		c := *e
		c.Skill = cmp.Or(sk.Name, sk.ID.Path)
		return &c
	}
	return fmt.Errorf("skill %q: %w", cmp.Or(sk.Name, sk.ID.Path), err)
}

func (p *Plan) stage(ctx context.Context, f *Found, sk metier.Skill, r Request) (Change, error) {
	err := f.misnamed(sk)
	if err == nil && !f.harnesses {
		err = r.check(sk)
	}
	if err != nil {
		return Change{}, err
	}
	if err := checkName(sk.Slug); err != nil {
		return Change{}, metier.Errorf(metier.Invalid, "skill_name_invalid", "give the skill a name of lowercase letters, digits, and hyphens", "%v", err)
	}
	if err := f.faultIn(sk.ID.Path); err != nil {
		return Change{}, err
	}
	b, err := f.snap.Open(ctx, sk.ID)
	if err != nil {
		return Change{}, err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err == nil {
		err = complete(m)
	}
	if err != nil {
		return Change{}, err
	}
	c := Change{Name: sk.Slug, Skill: sk, Entry: Entry{Source: p.store.portable(f.Source), Commit: f.Commit, Digest: f.digestOf(sk.ID.Path), Tree: string(m.Tree), Files: lockedFiles(m)}}
	c.Entry.Version, c.Entry.Plugin = versionOf(sk), f.pluginOf(sk)
	if c.Entry.Path = path.Join(f.Source.Path, sk.ID.Path); c.Entry.Path == "." {
		c.Entry.Path = ""
	}
	for _, file := range m.Files {
		c.Bytes += file.Size
	}
	if c.Signature, err = p.store.signatures(ctx, c.Name, f.Source, b, m); err != nil {
		return c, err
	}
	c.Entry.Signers = c.Signature.IDs()
	switch err := p.store.compare(ctx, &c, r.Agents, r.Force); {
	case err != nil || c.Action == Keep && c.Was != nil:
		return c, err
	case c.Action == Keep: // the files are there, but no lock has them
		return c, p.scan(ctx, &c, c.Name)
	}
	if err := p.copy(ctx, b, m, sk.Slug); err != nil {
		return c, p.store.fault(err, "")
	}
	staged := path.Join(work, p.id, "new", c.Name)
	if f.harnesses {
		err = p.validate(ctx, &c, r)
	} else {
		err = p.unchanged(sk, staged)
	}
	if err != nil {
		return c, err
	}
	return c, p.scan(ctx, &c, staged)
}

// unchanged reports a staged SKILL.md with other frontmatter than the one that was read, and that users see.
func (p *Plan) unchanged(sk metier.Skill, folder string) error {
	front, err := p.front(folder)
	was := sk.Head.Front
	if err == nil && (front.Name != was.Name || front.Description != was.Description || !slices.Equal(front.AllowedTools, was.AllowedTools)) {
		err = changing(cmp.Or(sk.Head.FileName, "SKILL.md"))
	}
	return err
}

func changing(file string) error {
	return &metier.Error{Path: file, Kind: metier.Conflict, Code: "skill_changing", Hint: "try again", Err: errors.New("the file changed while it was copied")}
}

// scan searches the files of a change, in a folder of the store, for signs of an attack.
func (p *Plan) scan(ctx context.Context, c *Change, folder string) error {
	files, err := p.store.root.OpenRoot(filepath.FromSlash(folder))
	if err != nil {
		return err
	}
	defer files.Close()
	r, err := scan.Skill(ctx, files.FS(), &scan.Options{Names: p.names(ctx).Like(cmp.Or(c.Skill.Name, c.Name))})
	c.Scan, c.Entry.Scanner = &r, r.Rules
	return err
}

// names returns the names of the skills in the lock and in the folder.
func (p *Plan) names(ctx context.Context) *confusable.Names {
	if p.others == nil {
		p.others = &confusable.Names{}
		p.others.Add(slices.Sorted(maps.Keys(p.store.lock.Skills))...)
		unlocked, _ := p.store.unlocked(ctx) // verify reports what cannot be read
		for _, v := range unlocked {
			p.others.Add(path.Base(v.Name))
		}
	}
	return p.others
}

// Check returns an error if a skill lacks a signer that it had or must have, or if its new files are
// dangerous, unless AcceptSigners or AllowFindings allow it.
func (p *Plan) Check() error {
	for _, c := range p.Changes {
		if err := cmp.Or(p.checkRequired(c), p.checkSigner(c)); err != nil {
			return err
		}
		if c.Scan != nil && !p.AllowFindings {
			if err := dangerous(c, "install it"); err != nil {
				return err
			}
		}
	}
	return nil
}

// dangerous returns an error if the scanner takes the new files of a skill for dangerous. do is what the
// user should not do with it.
func dangerous(c Change, do string) error {
	if c.Scan.Verdict != scan.Dangerous {
		return nil
	}
	f := c.Scan.Findings[0]
	return &metier.Error{Skill: c.Name, Path: f.File, Field: "Plan.AllowFindings", Kind: metier.Denied, Code: "skill_dangerous",
		Hint: "do not " + do + "; if you have read its files and want them, set Plan.AllowFindings", Err: errors.New(strings.ToLower(f.Title[:1]) + f.Title[1:])}
}

// check reports why a skill is not installed, by the setting install_validation.
func (r Request) check(sk metier.Skill) error {
	rejected := func(path, text string) error {
		return &metier.Error{Path: path, Kind: metier.Invalid, Code: "skill_rejected", Hint: "ask the author of the skill to fix it; 'metier validate PATH' shows all problems", Err: errors.New(text)}
	}
	switch {
	case sk.Head.Broken || !sk.Head.Front.HasName && r.validation == settings.InstallValidationMinimal:
		for _, d := range sk.Diagnostics {
			if d.Severity == skillmd.Error {
				return rejected(cmp.Or(d.Path, sk.ID.Path), "its SKILL.md cannot be used: "+d.Detail)
			}
		}
		return rejected(sk.ID.Path, "its SKILL.md cannot be used")
	case !sk.Head.Front.HasDescription && r.validation == settings.InstallValidationMinimal:
		return rejected(sk.ID.Path, "it has no description")
	case r.validation == settings.InstallValidationMinimal, r.validation == settings.InstallValidationLenient:
		return nil
	}
	for _, d := range sk.Diagnostics {
		if d.Severity == skillmd.Error {
			return rejected(cmp.Or(d.Path, sk.ID.Path), d.Detail)
		}
	}
	if sk.State == metier.Refused {
		return rejected(sk.ID.Path, "it would not load")
	}
	return nil
}

// copy copies the files of a skill into the staging folder. Their bytes are those of the manifest.
func (p *Plan) copy(ctx context.Context, b metier.Bundle, m metier.Manifest, name string) error {
	dir := filepath.Join(p.id, "new", name)
	if err := p.store.work.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to, err := p.store.work.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, f := range m.Files {
		if err := copyFile(ctx, b, f, to); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(ctx context.Context, b metier.Bundle, f metier.File, to *os.Root) error {
	if err := atomicfile.At(step, f.Path); err != nil {
		return err
	}
	in, err := b.Open(ctx, f.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if dir := path.Dir(f.Path); dir != "." {
		if err := to.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	out, err := to.OpenFile(filepath.FromSlash(f.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return &metier.Error{Path: f.Path, Kind: metier.Invalid, Code: "skill_file_refused", Hint: "rename one of them", Err: errors.New("two files have this name on this file system")}
	}
	if err != nil {
		return err
	}
	h := digest.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(in, f.Size+1))
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	if n != f.Size || h.Sum() != string(f.Digest) {
		return changing(f.Path)
	}
	return nil
}

// Discard removes what was staged.
func (p *Plan) Discard() error {
	return p.store.work.RemoveAll(p.id)
}
