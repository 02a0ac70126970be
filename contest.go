package metier

import (
	"cmp"
	"slices"

	"metier/internal/confine"
	"metier/internal/confusable"
	"metier/internal/nfkc"
	"metier/internal/termtext"
	"metier/policy"
	"metier/skillmd"
)

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
	l, e := &c.n.skills[later], &c.n.skills[earlier]
	return c.protect && trust(l.Tier) > trust(e.Tier) && !c.yields(l, e)
}

// yields reports whether a skill gives up its name to one that models may use.
// A third-party skill does not get it.
func (c *contest) yields(sk, to *Skill) bool {
	return !sk.ModelInvocable && to.ModelInvocable && trust(to.Tier) > 0 &&
		slices.ContainsFunc(c.n.mounts, func(m Mount) bool { return m.Yields && m.Label == sk.ID.Source })
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
	case !c.n.borrows(i, j) && (c.n.borrows(j, i) || c.beats(i, j)):
		c.n.shadow(j, i, sameFiles)
		c.folder[sk.Head.Location] = i
	default:
		c.n.shadow(i, j, sameFiles)
	}
}

// borrows reports whether a project only links to a skill of another tier's root. The link gives the
// skill no other ID and tier, on which the operator's rules depend.
func (n *Snapshot) borrows(i, from int) bool {
	in := func(sk *Skill) bool { return sk.Root != "" && confine.Within(sk.Root, sk.Head.Location) }
	sk, owner := &n.skills[i], &n.skills[from]
	return sk.Tier.Or() == policy.Project && owner.Tier.Or() != policy.Project && !in(sk) && in(owner)
}

// same reports whether two entries of one SKILL.md are one folder: a file may
// be linked into several, and is then a skill in each.
func (c *contest) same(a, b *Skill) bool {
	return a.ID.Source != b.ID.Source && (c.n.key(a.Name) == c.n.key(b.Name) || a.named() == a.Dir() && b.named() == b.Dir())
}

// contested lists who has a name that some skill took in place of its folder's:
// entries in a folder of that name, and other skills that took it. The most
// trusted come first.
type contested struct {
	folders, names []int
	other          int // place in names of the first with another folder than names[0]; past the end if there is none
}

// sort puts the most trusted first.
func (l *contested) sort(c *contest) {
	for _, list := range [][]int{l.folders, l.names} {
		slices.SortStableFunc(list, func(a, b int) int { return trust(c.n.skills[b].Tier) - trust(c.n.skills[a].Tier) })
	}
	l.other = 1
	for l.other < len(l.names) && c.oneFolder(l.names[0], l.names[l.other]) {
		l.other++
	}
}

// owner returns who keeps skill i from the name it took.
func (l *contested) owner(i int, c *contest) (by int, taken bool) {
	outranks := func(j int) bool { return trust(c.n.skills[j].Tier) >= trust(c.n.skills[i].Tier) }
	if len(l.folders) > 0 && outranks(l.folders[0]) {
		return l.folders[0], true
	}
	j := l.names[0]
	if c.oneFolder(i, j) {
		if l.other == len(l.names) {
			return 0, false
		}
		j = l.names[l.other]
	}
	return j, outranks(j)
}

// oneFolder reports whether the folders of two skills have one name.
func (c *contest) oneFolder(i, j int) bool {
	a, b := c.n.skills[i].folder, c.n.skills[j].folder
	return a == b || c.n.key(a) == c.n.key(b)
}

// claims hides each skill whose name is not its folder's, if another entry of
// the same or a more trusted tier has that name or a folder of that name. The
// order of folders decides nothing here. Copies of one folder in several roots
// compete as usual.
func (c *contest) claims(order []int) {
	claims := c.claimed(order)
	owners := map[int]int{} // all of them are found before any skill loses its name
	for _, l := range claims {
		for _, i := range l.names {
			if by, taken := l.owner(i, c); taken && c.took(&c.n.skills[i]) {
				owners[i] = by
			}
		}
	}
	details := map[int]string{}
	for i, by := range owners {
		details[i] = c.taken(&c.n.skills[i], &c.n.skills[by])
	}
	for _, i := range order {
		if detail, lost := details[i]; lost {
			c.hide(&c.n.skills[i], detail)
		}
	}
}

// claimed returns the claims by match key.
func (c *contest) claimed(order []int) map[string]*contested {
	claims := map[string]*contested{}
	for _, i := range order {
		if sk := &c.n.skills[i]; sk.usable() && c.took(sk) {
			claims[c.n.key(sk.Name)] = &contested{}
		}
	}
	if len(claims) == 0 {
		return nil
	}
	for _, i := range order {
		sk := &c.n.skills[i]
		if sk.State == Shadowed { // another way to a folder that counts already
			continue
		}
		folder, name := c.n.key(sk.folder), c.n.key(sk.Name)
		if l := claims[folder]; l != nil && sk.folder != "" {
			l.folders = append(l.folders, i)
		}
		if l := claims[name]; l != nil && name != folder && sk.usable() {
			l.names = append(l.names, i)
		}
	}
	for _, l := range claims {
		l.sort(c)
	}
	return claims
}

// took reports whether a skill's name is another one than its folder's.
func (c *contest) took(sk *Skill) bool {
	return sk.folder != "" && sk.folder != sk.Name && c.n.key(sk.Name) != c.n.key(sk.folder) && nfkc.String(sk.Name) != nfkc.String(sk.folder)
}

// taken says why sk does not have the name it took. It notes that by won the
// name, if it did.
func (c *contest) taken(sk, by *Skill) string {
	detail := "its folder is " + termtext.Quote(sk.folder) + ", and the name " + termtext.Quote(sk.Name)
	if c.n.key(by.folder) != c.n.key(sk.Name) {
		return detail + " is also that of " + termtext.Quote(by.ID.String())
	}
	if by.usable() && c.n.key(by.Name) == c.n.key(sk.Name) {
		c.n.won[by.ID] = true
	}
	return detail + " belongs to the folder of " + termtext.Quote(by.ID.String())
}

// hide leaves a skill no name but its ID.
func (c *contest) hide(sk *Skill, detail string) {
	sk.State, sk.Name = Hidden, sk.ID.String()
	sk.note(skillmd.Warning, nameTaken, detail)
	c.n.diags = append(c.n.diags, sk.Diagnostics[len(sk.Diagnostics)-1])
}

// nameTaken is the code of a skill that claims another skill's name.
const nameTaken = "name-taken"

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
	sk := &c.n.skills[i]
	k := c.n.key(sk.Name)
	j, met := c.winner[k]
	if !met || sk.State != Disabled && sk.State != Refused {
		return
	}
	tier := c.n.skills[j].Tier
	if c.beats(i, j) || sk.keepsName && (tier == policy.Project || trust(tier) < trust(policy.Project)) {
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
	l, w := &n.skills[loser], &n.skills[winner]
	l.State, l.ShadowedBy = Shadowed, w.ID
	if l.Head.Location != "" && l.Head.Location == w.Head.Location { // a link: there is one skill, and nothing to warn of
		l.note(skillmd.Advice, sameFiles, "skill "+termtext.Quote(l.Name)+" is shadowed by "+termtext.Quote(w.ID.String()))
		return
	}
	n.won[w.ID] = true
	d := Diagnostic{Severity: "warning", Code: code, Path: l.Head.Location,
		Detail: "skill " + termtext.Quote(l.Name) + " is shadowed by " + termtext.Quote(w.ID.String())}
	l.Diagnostics = append(l.Diagnostics, d)
	n.diags = append(n.diags, d)
}

// sameFiles is the code of a second path to the files of a skill.
const sameFiles = "skill-listed-twice"

// compareNames notes each usable skill whose name looks like that of another one
// (Unicode Technical Standard #39). Of those that look alike the one that is
// plain ASCII is taken for the original, then the most trusted one, then the
// first in the order of All.
func (n *Snapshot) compareNames() {
	original := map[string]int{} // by skeleton
	for i := range n.skills {
		sk := &n.skills[i]
		if !sk.usable() {
			continue
		}
		shape := confusable.Skeleton(sk.Name)
		if j, met := original[shape]; !met || plainer(sk, &n.skills[j]) {
			original[shape] = i
		}
	}
	if len(original) == len(n.skills) {
		return
	}
	for i := range n.skills {
		sk := &n.skills[i]
		if !sk.usable() {
			continue
		}
		by := &n.skills[original[confusable.Skeleton(sk.Name)]]
		if by.ID != sk.ID {
			sk.note(skillmd.Warning, confusableName, confusable.Alike(sk.Name, by.Name, termtext.Line(by.ID.String())))
			n.diags = append(n.diags, sk.Diagnostics[len(sk.Diagnostics)-1])
		}
	}
}

// plainer reports whether a is rather the original than b.
func plainer(a, b *Skill) bool {
	return cmp.Or(cmp.Compare(bit(confusable.ASCII(a.Name)), bit(confusable.ASCII(b.Name))), trust(a.Tier)-trust(b.Tier)) > 0
}

// confusableName is the code of a skill whose name looks like another skill's.
const confusableName = "confusable-name"
