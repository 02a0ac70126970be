package metier

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/diagcodes"
	"metier/internal/injection"
	"metier/internal/termtext"
	"metier/policy"
	"metier/registry"
	"metier/skillmd"
)

// Registry describes the snapshot. Its sandbox paths are always those of
// paths=sandbox, regardless of what the model sees.
func (n *Snapshot) Registry(v View) registry.List {
	r := registry.List{Roots: []registry.Root{}, Skills: []registry.Skill{}, Others: []registry.Other{}, Diagnostics: nonNil(n.Diagnostics())}
	for i, m := range n.mounts {
		r.Roots = append(r.Roots, registry.Root{Label: m.Label, Tier: string(m.Tier.Or()), Path: m.Root})
		if i == 0 {
			r.SandboxSkillsRoot = firstOf(m.Target, SkillsPath)
			if rel, ok := inside(v.Workspace, m.Root); ok && m.Target == "" {
				r.SandboxSkillsRoot = path.Join(WorkspacePath, rel)
			}
			r.SkillsRoot = v.named(m.Root, r.SandboxSkillsRoot)
		}
	}
	for _, sk := range n.skills {
		if sk.State != Loaded && sk.State != Hidden {
			o := registry.Other{ID: sk.ID.String(), Name: sk.Name, State: string(sk.State)}
			if sk.State == Shadowed {
				o.ShadowedBy = sk.ShadowedBy.String()
			}
			r.Others = append(r.Others, o)
			continue
		}
		r.Skills = append(r.Skills, v.registrySkill(sk))
	}
	return r
}

func (v View) registrySkill(sk Skill) registry.Skill {
	dir := v.Sandbox(sk)
	file := path.Join(dir, sk.Head.FileName)
	out := registry.Skill{ID: sk.ID.String(), Name: sk.Name, Description: sk.Description, Tier: string(sk.Tier.Or()), State: string(sk.State),
		SkillPath: v.named(sk.Head.Location, file), SkillDir: v.named(sk.Dir(), dir), SandboxSkillDir: dir, SandboxSkillPath: file,
		Digest: string(sk.Digest), Tree: string(sk.Tree), Indexed: sk.Indexed, Resources: []registry.Resource{},
		Frontmatter: sk.Head.Front.JSON(), Diagnostics: nonNil(sk.Diagnostics)}
	for _, f := range sk.Resources {
		res := registry.Resource{Path: f.Path, Kind: string(f.Kind), ResourcePath: f.Location, SandboxResourcePath: path.Join(dir, f.Path),
			SizeBytes: f.Size, Digest: string(f.Digest), ContentKind: contentKind(f.Text), Diagnostics: []Diagnostic{}}
		if f.Kind == Script {
			res.Script = &registry.Script{Executable: f.Exec, Shebang: f.Shebang, Runtime: f.Runtime}
		}
		out.Resources = append(out.Resources, res)
	}
	return out
}

// Explanation explains the state of an entry and the rule behind it, or why a
// path is not a skill. It depends only on the snapshot, so every surface
// reports the same.
type Explanation struct {
	Skill  Skill  // zero if there is no entry
	State  Status // "" if there is no entry
	Rule   string // code of the rule that decided
	Reason string
	Fix    string // "" if no fix is needed
	By     Skill  // the skill that has the name, if State is Shadowed
	// Shown reports whether the catalog lists the entry. ShownRule and
	// ShownReason give the reason, and ShownFix the fix. All are zero if there
	// is no entry.
	Shown                            bool
	ShownRule, ShownReason, ShownFix string
}

// Entries returns the entries for an ID or a name in any state, the effective
// one first: the entry with that ID, else those with that name, else those with
// that folder name or slug.
func (n *Snapshot) Entries(name string) []Skill {
	key := n.key(name)
	for _, is := range []func(sk *Skill) bool{
		func(sk *Skill) bool { return sk.ID.String() == name },
		func(sk *Skill) bool {
			return n.key(sk.Name) == key || termtext.Line(sk.Name) == name || sk.Head.Front.HasName && n.key(sk.Head.Front.Name) == key
		},
		func(sk *Skill) bool {
			return name != "." && path.Base(sk.ID.Path) == name || sk.Slug != "" && sk.Slug == name
		},
	} {
		if out := n.which(is); len(out) > 0 {
			return out
		}
	}
	return nil
}

// At returns the entries at a host path: a skill's folder or its SKILL.md,
// before or after links are resolved.
func (n *Snapshot) At(host string) []Skill {
	host = filepath.Clean(host)
	return n.which(func(sk *Skill) bool {
		if loc := sk.Head.Location; loc != "" && (loc == host || sk.Dir() == host && sk.Head.FileName != "") {
			return true
		}
		named := sk.named()
		return named != "" && (named == host || sk.Head.FileName != "" && filepath.Join(named, sk.Head.FileName) == host)
	})
}

// named returns an entry's folder before links are resolved, or "" if the root
// has no host path.
func (sk *Skill) named() string {
	if sk.Root == "" {
		return ""
	}
	return filepath.Join(sk.Root, filepath.FromSlash(sk.ID.Path))
}

func (n *Snapshot) which(is func(*Skill) bool) []Skill {
	var out []Skill
	for i := range n.skills {
		if is(&n.skills[i]) {
			out = append(out, n.skills[i])
		}
	}
	slices.SortStableFunc(out, func(a, b Skill) int { return cmp.Or(losersLast(&a, &b), fitsFirst(&a, &b)) })
	return out
}

// Explain explains the state of an entry of this snapshot. c is the catalog of
// its session, and denied lists the names and IDs that the operator denies.
func (n *Snapshot) Explain(sk Skill, c Catalog, denied []string) Explanation {
	e := Explanation{Skill: sk, State: sk.State}
	decisive := n.decisive(&sk)
	e.Rule = decisive.Code
	e.Reason, e.Fix = reasoned(decisive)
	for by := sk; by.State == Shadowed; e.By = by {
		i, known := n.byID()[by.ShadowedBy]
		if !known {
			break
		}
		by = n.skills[i]
	}
	shown := e.shown(sk, c, denied)
	e.ShownRule, e.Shown = shown.Code, strings.HasPrefix(shown.Code, "listed")
	e.ShownReason, e.ShownFix = reasoned(shown)
	return e
}

// Rule returns the code of the rule that decided a skill's state. Explain
// returns more details, and is slower.
func (n *Snapshot) Rule(sk *Skill) string { return n.decisive(sk).Code }

func reasoned(d Diagnostic) (reason, fix string) {
	r, _ := diagcodes.Of(d.Code)
	parts := slices.DeleteFunc([]string{r.Why, d.Detail}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": "), r.Fix
}

// decisive returns the finding that decided an entry's state.
func (n *Snapshot) decisive(sk *Skill) Diagnostic {
	switch sk.State {
	case Loaded:
		if n.won[sk.ID] {
			return Diagnostic{Code: "first-of-name"}
		}
		return Diagnostic{Code: "unique-name"}
	case Shadowed:
		for _, d := range slices.Backward(sk.Diagnostics) {
			if d.Code == "name-protected" || d.Code == "duplicate-skill-name" || d.Code == sameFiles {
				return d
			}
		}
		return Diagnostic{Code: "duplicate-skill-name"}
	case Hidden, Disabled:
		for _, d := range sk.Diagnostics {
			if (d.Code == "other-platform" || d.Code == nameTaken) && sk.State == Hidden || d.Code == "disabled" && sk.State == Disabled {
				return d
			}
		}
	case Refused:
		for _, severity := range []skillmd.Severity{skillmd.Error, skillmd.Warning, skillmd.Advice} {
			for _, d := range sk.Diagnostics {
				if d.Severity == severity {
					return d
				}
			}
		}
	}
	return Diagnostic{Code: string(sk.State)}
}

func (e Explanation) shown(sk Skill, c Catalog, denied []string) Diagnostic {
	if rule := unlisted(&sk, &policy.Grants{Denied: denied, Skills: c.rules}, c.guard); rule != "" {
		return Diagnostic{Code: rule}
	}
	if !c.shown() {
		return Diagnostic{Code: "no-catalog"}
	}
	name := termtext.Line(sk.Name)
	i := slices.IndexFunc(c.Entries, func(x CatalogEntry) bool { return x.Name == name })
	switch {
	case i < 0 && c.Search != "":
		return Diagnostic{Code: "search-only", Detail: fmt.Sprintf("%d entries are in it, %d are left to %s", len(c.Entries), c.Omitted, c.Search)}
	case i < 0:
		return Diagnostic{Code: "catalog-full", Detail: fmt.Sprintf("%d entries are in it, %d are left out", len(c.Entries), c.Omitted)}
	case c.Rung == rungNames:
		return Diagnostic{Code: "listed-by-name"}
	case c.Entries[i].Description != termtext.Line(sk.Description) && c.Rung == rungFull:
		return Diagnostic{Code: "listed-cut", Detail: "its description is longer than 1,024 characters, or than catalog_desc_max"}
	case c.Entries[i].Description != termtext.Line(sk.Description):
		return Diagnostic{Code: "listed-cut", Detail: "its description is cut to fit"}
	}
	return Diagnostic{Code: "listed"}
}

// Suspicions reads a skill's SKILL.md and returns a warning with line and
// column for each text that reads like an injection. It returns at most ten,
// and the last one reports that there may be more. It returns none for
// unreadable files. It does not fetch remote files, which are checked when they
// are loaded.
func (n *Snapshot) Suspicions(ctx context.Context, sk Skill) []Diagnostic {
	if sk.Head.FileName == "" || sk.Head.Remote {
		return nil
	}
	raw, _, err := n.ReadFile(ctx, sk, "", skillMax)
	if err != nil {
		return nil
	}
	var out []Diagnostic
	for _, f := range injection.Find(string(raw)) {
		before, what := raw[:f.Offset], "text that reads like an injection"
		if f.Mentioned {
			what = "text about an injection: quoted, negated, in code, or an example"
		}
		out = append(out, Diagnostic{Severity: skillmd.Warning, Code: "injection-like-text", Path: sk.Head.Location, Line: bytes.Count(before, []byte("\n")) + 1,
			Column: utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1, Detail: fmt.Sprintf("%s (%s) starts at byte %d", what, f.Kind, f.Offset)})
	}
	if len(out) == injection.Most {
		out[len(out)-1].Detail += "; the rest was not scanned"
	}
	return out
}

// ExplainPath explains why there is no entry at a host path. It is lexical,
// except for sources with a method Why.
func (n *Snapshot) ExplainPath(ctx context.Context, host string) Explanation {
	host = filepath.Clean(host)
	d := n.absent(ctx, host)
	d.Code = cmp.Or(d.Code, "not-listed")
	e := Explanation{Rule: d.Code}
	e.Reason, e.Fix = reasoned(d)
	return e
}

func (n *Snapshot) absent(ctx context.Context, host string) Diagnostic {
	m, rel := n.holder(host)
	if m == nil {
		roots := make([]string, 0, len(n.mounts))
		for _, m := range n.mounts {
			if m.Root != "" {
				roots = append(roots, m.Root)
			}
		}
		detail := "it is not in " + joined(roots, len(roots))
		if len(roots) == 0 {
			detail = "there are no roots"
		}
		return Diagnostic{Code: "outside-roots", Detail: detail}
	}
	below := 0
	for i := range n.skills {
		sk := &n.skills[i]
		if sk.Head.FileName == "" {
			continue
		}
		for _, dir := range []string{sk.named(), sk.Dir()} {
			if in, ok := under(dir, host); ok && in != "." {
				return n.inSkill(ctx, *sk, host, in)
			}
		}
		if _, ok := under(host, sk.named()); ok {
			below++
		}
	}
	d := Diagnostic{}
	if w, ok := m.Source.(interface {
		// Why returns the reason why the source does not list a path.
		Why(path string) Diagnostic
	}); ok {
		d = w.Why(rel)
	}
	if below > 0 && (d.Code == "" || d.Code == "no-skill-file") {
		d = Diagnostic{Code: "group-folder", Detail: fmt.Sprintf("%d below it", below)}
	}
	return d
}

// inSkill explains a path inside a skill's folder.
func (n *Snapshot) inSkill(ctx context.Context, sk Skill, host, in string) Diagnostic {
	d := Diagnostic{Code: "inside-skill", Detail: "it is in the skill " + termtext.Quote(sk.Name) + " (" + termtext.Line(sk.ID.String()) + ")"}
	full, err := n.Index(ctx, sk)
	if err != nil || !sk.usable() {
		return d
	}
	for _, x := range full.Diagnostics {
		if _, ok := under(x.Path, host); ok && x.Path != "" && x.Path != full.Head.Location {
			return x
		}
	}
	for _, r := range full.Resources {
		if r.Path == in {
			return Diagnostic{Code: "skill-file", Detail: fmt.Sprintf("it is a file of the skill %s (%s, %d bytes)", termtext.Quote(sk.Name), r.Kind, r.Size)}
		}
	}
	return d
}

// holder returns the innermost mount whose root contains a host path.
func (n *Snapshot) holder(host string) (best *Mount, rel string) {
	for i := range n.mounts {
		m := &n.mounts[i]
		in, ok := under(m.Root, host)
		if ok && (best == nil || len(m.Root) > len(best.Root)) {
			best, rel = m, in
		}
	}
	return best, rel
}

// under returns the slash path of host below dir, "." for dir itself.
func under(dir, host string) (string, bool) {
	if dir == "" || len(dir) > len(host) {
		return "", false
	}
	rel, err := filepath.Rel(dir, host)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

func contentKind(text bool) string {
	if text {
		return "text"
	}
	return "binary"
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
