package metier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"metier/internal/script"
	"metier/internal/slug"
	"metier/internal/visible"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Snapshot is the index of all entries at one moment, with diagnostics. It
// does not change; the files of a skill are indexed when first asked for and
// then kept.
type Snapshot struct {
	mounts []Mount
	skills []Skill          // winners first, by name, then the others
	byKey  map[string][]int // usable entries by match key
	byText map[string]int   // usable entries by ID; then by slug and by the name as it is shown
	key    func(string) string
	diags  []Diagnostic
	read   settings.IndexRootFile
	won    map[ID]bool      // whose name another entry lost to it
	others map[string]Skill // groups and documents by ID: they are read, and are no skills

	mu      sync.Mutex
	indexed map[ID]Skill
	folders map[View]map[string]int // see folder

	finding sync.Mutex
	finder  *finder // see Search
}

// Build lists the mounts and applies the rules. A source that cannot be listed
// is an error naming its label; a bad entry is a Skill with State Refused.
// start indexes and hashes all files at once instead of at first use. Two
// mounts of one label are an error of Kind Invalid, since IDs carry it.
func Build(ctx context.Context, mounts []Mount, parse settings.Parse, names settings.Names, root settings.IndexRootFile, start bool) (*Snapshot, error) {
	n := &Snapshot{mounts: mounts, byKey: map[string][]int{}, byText: map[string]int{}, key: matchKey(names.Match), read: root, won: map[ID]bool{}, others: map[string]Skill{}, indexed: map[ID]Skill{}, folders: map[View]map[string]int{}}
	labels := map[string]bool{}
	for _, m := range mounts {
		if labels[m.Label] {
			return nil, &Error{Op: "scan", Path: m.Root, Kind: Invalid, Code: "label_taken", Hint: "give each root a label of its own", Err: fmt.Errorf("two roots have the label %s", visible.Quote(m.Label))}
		}
		labels[m.Label] = true
		first := len(n.skills)
		for h, err := range m.Source.List(ctx) {
			if err != nil {
				if e, ok := errors.AsType[*Error](err); ok {
					return nil, e
				}
				return nil, &Error{Op: "scan", Path: m.Root, Kind: Unavailable, Code: "unresolvable-skill-scan-path", Err: fmt.Errorf("source %s: %w", m.Label, err)}
			}
			if h.Kind != "" && h.Kind != KindSkill {
				n.other(h, m)
				continue
			}
			sk := n.weigh(ctx, judge(h, m, parse, names).reserved(m), m)
			if len(n.skills) == cap(n.skills) { // twice as many, since a Skill is large and append would grow by a quarter
				n.skills = slices.Grow(n.skills, max(len(n.skills), 64))
			}
			n.skills = append(n.skills, sk)
			n.diags = append(n.diags, sk.Diagnostics...)
		}
		if m.Space != "" {
			spaced(n.skills[first:], m.Space, n.key)
		}
		n.diags = append(n.diags, m.Notes...)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.resolve(names)
	if start {
		if err := n.indexAll(ctx); err != nil {
			return nil, err
		}
	}
	n.alias()
	return n, nil
}

// other keeps a group or a document.
func (n *Snapshot) other(h Head, m Mount) {
	sk := Skill{ID: ID{m.Label, h.Path}, Name: h.Path, Description: h.Front.Description, Tier: m.Tier.Or(), State: Loaded, Head: &h, Root: m.Root,
		Digest: h.Digest, Diagnostics: h.Diagnostics, ModelInvocable: true, UserInvocable: true}
	if h.Path == "." {
		sk.Name = firstOf(h.Front.Name, m.Label)
	}
	if h.Broken {
		sk.State = Refused
	}
	n.others[sk.ID.String()] = sk
	n.diags = append(n.diags, h.Diagnostics...)
}

// entry is Find, and finds groups and documents too, by their IDs.
func (n *Snapshot) entry(name string) (Skill, error) {
	sk, is := n.others[name]
	if is && sk.State == Refused {
		d := n.decisive(sk)
		return sk, &Error{Op: "find", Skill: name, Kind: Invalid, Code: d.Code, Err: errors.New(d.Detail)}
	}
	if is {
		return sk, nil
	}
	return n.Find(name)
}

// spaced names the skills of a mount that has names of its own.
func spaced(skills []Skill, space string, key func(string) string) {
	count := map[string]int{}
	for i := range skills {
		count[key(skills[i].Name)]++
	}
	for i := range skills {
		sk := &skills[i]
		name := sk.Name
		if count[key(name)] > 1 {
			name = sk.ID.Path
			sk.note(skillmd.Warning, "name-by-path", "another skill of this origin has the name "+visible.Quote(sk.Name)+"; both are named by their paths")
		}
		sk.Name = space + ":" + name
	}
}

// weigh applies what people decided about a skill: that it is switched off, or
// that its files are trusted more than its root.
func (n *Snapshot) weigh(ctx context.Context, sk Skill, m Mount) Skill {
	if sk.State == Refused {
		return sk
	}
	if m.Off != nil {
		if where, off := m.Off(sk.Head, sk.ID, sk.Name); off {
			sk.State = Disabled
			sk.note(skillmd.Advice, "disabled", "it is switched off in "+where)
		}
	}
	if m.Trusted == nil {
		return sk
	}
	tier, tree := m.Trusted(sk.Head, sk.ID)
	if tier == "" || tree == "" {
		return sk
	}
	lapsed := func(format string, a ...any) Skill {
		sk.note(skillmd.Warning, "trust-lapsed", fmt.Sprintf(format, a...)+"; it counts as "+string(sk.Tier))
		return sk
	}
	if tier != policy.Project && tier != policy.User {
		return lapsed("trust can make a skill one of the project or the user, not %s", visible.Quote(string(tier)))
	}
	full, err := n.Index(ctx, sk)
	delete(n.indexed, sk.ID) // it is not judged to the end yet
	switch {
	case err != nil:
		return lapsed("its files cannot be read: %v", err)
	case full.Tree != tree:
		return lapsed("its files are not the ones that were trusted")
	case trust(tier) <= trust(sk.Tier):
		return sk
	}
	full.Tier, full.rooted = tier, sk.Tier
	full.note(skillmd.Advice, "trusted", "the operator gave these files the tier "+string(tier)+"; their root has "+string(sk.Tier))
	return full
}

// indexAll indexes the usable skills, on all cores. One whose files cannot be
// listed is refused, not the whole snapshot.
func (n *Snapshot) indexAll(ctx context.Context) error {
	full, faults := make([]Skill, len(n.skills)), make([]error, len(n.skills))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(n.skills)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(n.skills) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if n.skills[i].usable() {
					full[i], faults[i] = n.Index(ctx, n.skills[i])
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i := range n.skills {
		sk := &n.skills[i]
		if !sk.usable() {
			continue
		}
		found := len(sk.Diagnostics)
		if faults[i] != nil {
			*sk = sk.refuse("unreadable-skill", "its files cannot be indexed: "+faults[i].Error())
		} else {
			*sk = full[i]
		}
		n.diags = append(n.diags, sk.Diagnostics[found:]...)
	}
	return nil
}

// alias makes every usable skill findable. An ID beats a name, since a name is
// the skill's own word and an ID the operator's.
func (n *Snapshot) alias() {
	n.byKey, n.byText = make(map[string][]int, len(n.skills)), make(map[string]int, 2*len(n.skills))
	for i := range n.skills {
		if sk := &n.skills[i]; sk.usable() {
			k := n.key(sk.Name)
			n.byKey[k] = append(n.byKey[k], i)
			n.byText[sk.ID.String()] = i
		}
	}
	for i := range n.skills {
		sk := &n.skills[i]
		if !sk.usable() {
			continue
		}
		for _, text := range []string{sk.Slug, visible.Line(sk.Name)} {
			if _, taken := n.byText[text]; !taken {
				n.byText[text] = i
			}
		}
	}
}

// resolve orders the skills, decides who has which name and marks the rest as
// shadowed.
func (n *Snapshot) resolve(names settings.Names) {
	order, rank := make([]int, len(n.skills)), n.ranks(names)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &n.skills[a], &n.skills[b]
		return cmp.Or(losersLast(x, y), fitsFirst(x, y), cmp.Compare(rank[a], rank[b]), cmp.Compare(x.ID.Path, y.ID.Path))
	})
	c := contest{n: n, protect: names.Protect == settings.ProtectYes, winner: map[string]int{}, folder: map[string]int{}}
	for _, step := range []func(int){c.once, c.name, c.guard} {
		for _, i := range order {
			step(i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &n.skills[a], &n.skills[b]
		return cmp.Or(cmp.Compare(x.Name, y.Name), losersLast(x, y), cmp.Compare(rank[a], rank[b]), cmp.Compare(x.ID.Path, y.ID.Path))
	})
	sorted := make([]Skill, len(order))
	for i, at := range order {
		sorted[i] = n.skills[at]
	}
	n.skills = sorted
	slugs := map[string]bool{}
	for i := range n.skills {
		sk := &n.skills[i]
		if sk.usable() {
			sk.Slug = slug.Unique(sk.Name, slugs)
		}
	}
}

// contest decides which of the ways to one folder counts, and who has which
// name.
type contest struct {
	n       *Snapshot
	protect bool
	winner  map[string]int // by match key
	folder  map[string]int // by host path of SKILL.md
}

// beats reports whether a skill that comes later wins all the same.
func (c *contest) beats(later, earlier int) bool {
	return c.protect && trust(c.n.skills[later].Tier) > trust(c.n.skills[earlier].Tier)
}

// once leaves one entry of a folder that several roots lead to.
func (c *contest) once(i int) {
	sk := &c.n.skills[i]
	j, met := c.folder[sk.Head.Location]
	switch {
	case !sk.usable(), sk.Head.Location == "":
	case !met:
		c.folder[sk.Head.Location] = i
	case !c.same(sk, &c.n.skills[j]):
	case c.beats(i, j):
		c.n.shadow(j, i, "skill-listed-twice")
		c.folder[sk.Head.Location] = i
	default:
		c.n.shadow(i, j, "skill-listed-twice")
	}
}

// same reports whether two entries of one SKILL.md are one folder: a file may
// be linked into several, and is then a skill in each.
func (c *contest) same(a, b *Skill) bool {
	return a.ID.Source != b.ID.Source && (c.n.key(a.Name) == c.n.key(b.Name) || a.named() == a.Dir() && b.named() == b.Dir())
}

// name gives a skill its name, unless one before it has it.
func (c *contest) name(i int) {
	k := c.n.key(c.n.skills[i].Name)
	j, taken := c.winner[k]
	switch {
	case !c.n.skills[i].usable():
	case !taken:
		c.winner[k] = i
	case c.beats(i, j):
		c.n.shadow(j, i, "name-protected")
		c.winner[k] = i
	default:
		c.n.shadow(i, j, "duplicate-skill-name")
	}
}

// guard keeps the name of a skill that is switched off or refused from less
// trusted ones: whoever can bring that about does not get its name by that.
func (c *contest) guard(i int) {
	k, state := c.n.key(c.n.skills[i].Name), c.n.skills[i].State
	if j, met := c.winner[k]; met && (state == Disabled || state == Refused) && c.beats(i, j) {
		c.n.shadow(j, i, "name-protected")
		delete(c.winner, k)
	}
}

// fitsFirst puts a skill for another operating system behind one that fits.
func fitsFirst(a, b *Skill) int {
	return cmp.Compare(bit(a.State == Hidden), bit(b.State == Hidden))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func losersLast(a, b *Skill) int {
	switch {
	case a.usable() && !b.usable():
		return -1
	case b.usable() && !a.usable():
		return 1
	}
	return 0
}

func (n *Snapshot) shadow(loser, winner int, code string) {
	l, w := &n.skills[loser], n.skills[winner]
	l.State, l.ShadowedBy = Shadowed, w.ID
	n.won[w.ID] = true
	d := Diagnostic{Severity: "warning", Code: code, Path: l.Head.Location,
		Detail: fmt.Sprintf("skill %s is shadowed by %s", visible.Quote(l.Name), visible.Quote(w.ID.String()))}
	l.Diagnostics = append(l.Diagnostics, d)
	n.diags = append(n.diags, d)
}

// ranks orders the skills: by the kinds of Names.Precedence, and in the order
// of the mounts where that says "roots" or nothing of a kind. A skill that is
// trusted more than its root ranks as its tier.
func (n *Snapshot) ranks(names settings.Names) []int {
	at, kinds := map[string]int{}, make([]string, len(n.mounts))
	for i, m := range n.mounts {
		at[m.Label], kinds[i] = i, cmp.Or(m.Kind, string(m.Tier.Or()))
	}
	out := make([]int, len(n.skills))
	for i := range n.skills {
		sk := &n.skills[i]
		root := at[sk.ID.Source]
		kind := kinds[root]
		if sk.rooted != "" {
			kind = string(sk.Tier)
		}
		p := slices.Index(names.Precedence, kind)
		if p < 0 {
			p = len(names.Precedence)
		}
		out[i] = p*len(n.mounts) + root
	}
	return out
}

// All returns every entry: by name, the effective one first.
func (n *Snapshot) All() []Skill { return slices.Clone(n.skills) }

// Skills returns the entries that can be used: loaded and hidden ones.
func (n *Snapshot) Skills() []Skill {
	return slices.DeleteFunc(n.All(), func(s Skill) bool { return !s.usable() })
}

// Mounts returns the mounts it was built from.
func (n *Snapshot) Mounts() []Mount { return slices.Clone(n.mounts) }

// Diagnostics returns all findings, in the order they were made.
func (n *Snapshot) Diagnostics() []Diagnostic { return slices.Clone(n.diags) }

// Find returns the usable skill of an ID, else of a name, else of a slug. The error has Code
// skill_not_found and a hint with what is available, skill_disabled when only a
// skill that is switched off has the name, or skill_registry_missing when there
// is no root at all.
func (n *Snapshot) Find(name string) (Skill, error) {
	if len(n.mounts) == 0 {
		return Skill{}, &Error{Op: "find", Skill: name, Kind: NotFound, Code: "skill_registry_missing",
			Hint: "name a folder of skills with --skills-root", Err: errors.New("there is no skills root")}
	}
	i, ok := n.byText[name]
	if ok && n.skills[i].ID.String() == name {
		return n.skills[i], nil
	}
	if k := n.byKey[n.key(name)]; len(k) > 0 {
		i, ok = k[0], true
	}
	if ok && !n.anothers(name, n.skills[i].ID.Source) {
		return n.skills[i], nil
	}
	for _, sk := range n.skills {
		if sk.State == Disabled && (sk.ID.String() == name || n.key(sk.Name) == n.key(name) || visible.Line(sk.Name) == name) {
			return Skill{}, &Error{Op: "find", Skill: name, Kind: Denied, Code: "skill_disabled",
				Hint: "'metier enable " + visible.Line(sk.ID.String()) + "' switches it on again", Err: errors.New("a person switched this skill off")}
		}
	}
	return Skill{}, &Error{Op: "find", Skill: name, Kind: NotFound, Code: "skill_not_found",
		Hint: n.available(), Err: errors.New("there is no such skill")}
}

// anothers reports whether a name is the ID of a skill that cannot be used, or one
// of another source's, there or not: that is nobody's name.
func (n *Snapshot) anothers(name, source string) bool {
	return strings.Contains(name, ":") && (slices.ContainsFunc(n.skills, func(sk Skill) bool { return sk.ID.String() == name }) ||
		slices.ContainsFunc(n.mounts, func(m Mount) bool { return m.Label != source && strings.HasPrefix(name, m.Label+":") }))
}

// available lists names for an error, at most twenty.
func (n *Snapshot) available() string {
	var names []string
	total := 0
	for i := range n.skills {
		if !n.skills[i].usable() {
			continue
		}
		if total++; total <= mostListed {
			names = append(names, visible.Line(n.skills[i].Name))
		}
	}
	return listed(names, total)
}

// mostListed is how many names an error gives.
const mostListed = 20

// listed words the first names of so many.
func listed(names []string, total int) string {
	if total == 0 {
		return "no skill is available"
	}
	return "available: " + joined(names, total)
}

// joined gives the first texts of so many, and counts the others.
func joined(texts []string, total int) string {
	texts = texts[:min(len(texts), mostListed)]
	if more := total - len(texts); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}

// Open pins a skill's files.
func (n *Snapshot) Open(ctx context.Context, id ID) (Bundle, error) {
	for _, m := range n.mounts {
		if m.Label == id.Source {
			return m.Source.Open(ctx, id.Path)
		}
	}
	return nil, &Error{Op: "open", Skill: id.String(), Kind: NotFound, Code: "skill_not_found", Err: errors.New("no source has that label")}
}

// indexer is a Source that lists the files of an entry without reading its
// head again.
type indexer interface {
	Manifest(ctx context.Context, h *Head) (Manifest, error)
}

func (n *Snapshot) manifest(ctx context.Context, sk Skill) (Manifest, error) {
	for _, m := range n.mounts {
		if x, ok := m.Source.(indexer); ok && m.Label == sk.ID.Source {
			return x.Manifest(ctx, sk.Head)
		}
	}
	b, err := n.Open(ctx, sk.ID)
	if err != nil {
		return Manifest{}, err
	}
	defer b.Close()
	return b.Manifest(ctx)
}

// Index returns the skill with its files indexed and hashed. The first call
// reads them, later ones give the same answer.
func (n *Snapshot) Index(ctx context.Context, sk Skill) (Skill, error) {
	if sk.Indexed {
		return sk, nil
	}
	n.mu.Lock()
	known, ok := n.indexed[sk.ID]
	n.mu.Unlock()
	if ok {
		return known, nil
	}
	man, err := n.manifest(ctx, sk)
	if err != nil {
		return sk, err
	}
	sk.Indexed, sk.Tree = true, man.Tree
	sk.Diagnostics = append(slices.Clone(sk.Diagnostics), man.Diagnostics...)
	sk.Resources = nil
	for _, f := range man.Files {
		if f.Path == sk.Head.FileName {
			sk.Digest = f.Digest
			if n.read == settings.IndexRootFileNo {
				continue
			}
		}
		r := Resource{File: f, Kind: kindOfPath(f.Path)}
		if r.Kind == Script {
			r.Runtime = script.Runtime(f.Path, f.Shebang)
		}
		sk.Resources = append(sk.Resources, r)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.indexed[sk.ID] = sk
	return sk, nil
}
