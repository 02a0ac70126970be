package metier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"metier/internal/parallel"
	"metier/internal/runtimes"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Snapshot is the index of all entries at one moment, with diagnostics. It
// does not change; the files of a skill are indexed when first asked for and
// then kept.
type Snapshot struct {
	mounts []Mount
	skills []Skill // winners first, by name, then the others
	key    func(string) string
	named  func() byName
	byID   func() map[ID]int
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
	n := &Snapshot{mounts: mounts, key: matchKey(names.Match), read: root, won: map[ID]bool{}, others: map[string]Skill{}, indexed: map[ID]Skill{}, folders: map[View]map[string]int{}}
	labels := map[string]bool{}
	for _, m := range mounts {
		if m.Source == nil {
			return nil, &Error{Op: "scan", Path: m.Root, Kind: Invalid, Code: "source_missing", Hint: "set Mount.Source", Err: fmt.Errorf("the mount %s has no source", termtext.Quote(m.Label))}
		}
		if labels[m.Label] {
			return nil, &Error{Op: "scan", Path: m.Root, Kind: Invalid, Code: "label_taken", Hint: "give each root its own label", Err: fmt.Errorf("two roots have the label %s", termtext.Quote(m.Label))}
		}
		labels[m.Label] = true
		heads, err := n.list(ctx, m)
		if err != nil {
			return nil, err
		}
		skills := make([]Skill, len(heads))
		parallel.Each(ctx, len(heads), 64, func(i int) { skills[i] = newSkill(heads[i], m, parse, names).reserved(m) })
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range skills {
			skills[i] = n.weigh(ctx, skills[i], m)
			n.diags = append(n.diags, skills[i].Diagnostics...)
		}
		if m.Space != "" {
			spaced(skills, m.Space, n.key)
		}
		n.skills = slices.Concat(n.skills, skills)
		n.diags = append(n.diags, m.Notes...)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.resolve(names)
	n.compareNames()
	n.name()
	if start {
		if err := n.indexAll(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// list returns the skills of a mount and keeps its groups and documents.
func (n *Snapshot) list(ctx context.Context, m Mount) ([]*Head, error) {
	var heads []*Head
	for h, err := range m.Source.List(ctx) {
		if err != nil {
			if e, ok := errors.AsType[*Error](err); ok {
				return nil, e
			}
			return nil, &Error{Op: "scan", Path: m.Root, Kind: Unavailable, Code: "unresolvable_skill_scan_path", Err: fmt.Errorf("source %s: %w", m.Label, err)}
		}
		if h.Kind != "" && h.Kind != KindSkill {
			n.other(h, m)
			continue
		}
		heads = append(heads, h)
	}
	return heads, nil
}

// other keeps a group or a document.
func (n *Snapshot) other(h *Head, m Mount) {
	sk := Skill{ID: ID{m.Label, h.Path}, Name: h.Path, Description: h.Front.Description, Tier: m.Tier.Or(), State: Loaded, Head: h, Root: m.Root,
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
			sk.note(skillmd.Warning, "name-by-path", "another skill of this origin has the name "+termtext.Quote(sk.Name)+"; both are named by their paths")
		}
		sk.Name, sk.folder = space+":"+name, ""
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
			sk.keepsName = m.Reserved != nil && m.Reserved(sk.Head, sk.ID, sk.Name)
			sk.note(skillmd.Advice, "disabled", "the decision is stored in "+where)
		}
	}
	if tier := m.TierOf(sk.Head); tier != sk.Tier {
		sk.note(skillmd.Advice, "installed", "it was installed from elsewhere, so it has the tier "+string(tier)+"; its root has "+string(sk.Tier))
		sk.Tier = tier
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
		return lapsed("trust can make a skill one of the project or the user, not %s", termtext.Quote(string(tier)))
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
	parallel.Each(ctx, len(n.skills), 1, func(i int) {
		if n.skills[i].usable() {
			full[i], faults[i] = n.Index(ctx, n.skills[i])
		}
	})
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

// resolve orders the skills, decides who has which name and marks the rest as
// shadowed.
func (n *Snapshot) resolve(names settings.Names) {
	order, rank := make([]int, len(n.skills)), n.ranks(names)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &n.skills[a], &n.skills[b]
		if d := cmp.Or(losersLast(x, y), fitsFirst(x, y), rank[a]-rank[b]); d != 0 {
			return d
		}
		return cmp.Or(strings.Compare(x.ID.Path, y.ID.Path), a-b)
	})
	c := contest{n: n, protect: names.Protect == settings.ProtectYes, winner: make(map[string]int, len(order)), folder: make(map[string]int, len(order))}
	for _, i := range order {
		c.once(i)
	}
	c.claims(order)
	for _, step := range []func(int){c.name, c.guard} {
		for _, i := range order {
			step(i)
		}
	}
	arrange(n.skills, n.order(rank))
}

// order returns the indexes of the skills in the order of All. It sorts small
// keys: comparing the skills, which are large, takes much longer.
func (n *Snapshot) order(rank []int) []int {
	const unusable = 1 << 24 // more than any rank
	type key struct {
		name  string
		at    int
		place int // rank; unusable entries come last
		by    string
	}
	keys := make([]key, len(n.skills))
	for i := range keys {
		sk := &n.skills[i]
		keys[i] = key{sk.Name, i, rank[i], sk.ID.Path}
		if !sk.usable() {
			keys[i].place += unusable
		}
	}
	slices.SortFunc(keys, func(x, y key) int {
		if d := strings.Compare(x.name, y.name); d != 0 {
			return d
		}
		return cmp.Or(x.place-y.place, strings.Compare(x.by, y.by), x.at-y.at)
	})
	order := make([]int, len(keys))
	for i, k := range keys {
		order[i] = k.at
	}
	return order
}

// arrange moves skills[order[i]] to i, in place: two copies of a large index
// would double its memory. It overwrites order.
func arrange(skills []Skill, order []int) {
	const done = -1
	for start := range order {
		if order[start] == done {
			continue
		}
		held, to := skills[start], start
		for {
			from := order[to]
			order[to] = done
			if from == start {
				break
			}
			skills[to] = skills[from]
			to = from
		}
		skills[to] = held
	}
}

// ranks orders the skills: by the kinds of Names.Precedence, and in the order
// of the mounts where that says "roots" or nothing of a kind. A skill that is
// trusted more, or less, than its root ranks as its tier.
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
		if sk.Tier != n.mounts[root].Tier.Or() {
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

// Each returns the entries of [Snapshot.All] one by one, without a copy of the list.
func (n *Snapshot) Each() iter.Seq[Skill] {
	return func(yield func(Skill) bool) {
		for i := range n.skills {
			if !yield(n.skills[i]) {
				return
			}
		}
	}
}

// Skills returns the entries that can be used: loaded and hidden ones.
func (n *Snapshot) Skills() []Skill {
	usable, _ := n.Count()
	out := make([]Skill, 0, usable)
	for i := range n.skills {
		if n.skills[i].usable() {
			out = append(out, n.skills[i])
		}
	}
	return out
}

// Count returns the number of entries that [Snapshot.Skills] returns, and of those that [Snapshot.All]
// returns.
func (n *Snapshot) Count() (usable, all int) {
	for i := range n.skills {
		if n.skills[i].usable() {
			usable++
		}
	}
	return usable, len(n.skills)
}

// Mounts returns the mounts it was built from.
func (n *Snapshot) Mounts() []Mount { return slices.Clone(n.mounts) }

// Diagnostics returns all findings, in the order they were made.
func (n *Snapshot) Diagnostics() []Diagnostic { return slices.Clone(n.diags) }

// Open pins a skill's files.
func (n *Snapshot) Open(ctx context.Context, id ID) (Bundle, error) {
	for _, m := range n.mounts {
		if m.Label == id.Source {
			return m.Source.Open(ctx, id.Path)
		}
	}
	return nil, &Error{Op: "open", Skill: id.String(), Kind: NotFound, Code: "skill_not_found", Err: errors.New("no source has that label")}
}

// ReadFile reads a file of a skill, at most most bytes. more reports whether it is longer. If file is "",
// it reads the skill's SKILL.md. The bytes are not compared with the index.
func (n *Snapshot) ReadFile(ctx context.Context, sk Skill, file string, most int64) (data []byte, more bool, err error) {
	b, err := n.Open(ctx, sk.ID)
	if err != nil {
		return nil, false, err
	}
	defer b.Close()
	f, err := b.Open(ctx, cmp.Or(file, sk.Head.FileName, "SKILL.md"))
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	return capped(f, most)
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
			r.Runtime = runtimes.Runtime(f.Path, f.Shebang)
		}
		sk.Resources = append(sk.Resources, r)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.indexed[sk.ID] = sk
	return sk, nil
}
