package metier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"metier/internal/nearest"
	"metier/internal/slug"
	"metier/internal/termtext"
	"metier/policy"
)

// Find returns the usable skill of an ID, else of a name, else of a slug. The error has Code
// skill_not_found and a hint with what is available, skill_disabled when only a
// skill that is switched off has the name, or skill_registry_missing when there
// is no root at all.
func (n *Snapshot) Find(name string) (Skill, error) {
	if len(n.mounts) == 0 {
		return Skill{}, &Error{Op: "find", Skill: name, Kind: NotFound, Code: "skill_registry_missing",
			Field: "Request.Roots", Hint: "specify a folder of skills with Request.Roots", Err: errors.New("there is no folder of skills to search")}
	}
	by := n.named()
	i, ok := by.text[name]
	if ok && n.skills[i].ID.String() == name {
		return n.skills[i], nil
	}
	if k, known := by.key[n.key(name)]; known {
		i, ok = k, true
	}
	if ok && !n.anothers(name, n.skills[i].ID.Source) {
		return n.skills[i], nil
	}
	for _, sk := range n.skills {
		if sk.State == Disabled && (sk.ID.String() == name || n.key(sk.Name) == n.key(name) || termtext.Line(sk.Name) == name) {
			return Skill{}, &Error{Op: "find", Skill: name, Kind: Denied, Code: "skill_disabled",
				Hint: "enable it with: metier enable " + termtext.Word(sk.ID.String()), Err: errors.New("a user disabled this skill")}
		}
	}
	return Skill{}, &Error{Op: "find", Skill: name, Kind: NotFound, Code: "skill_not_found",
		Hint: n.available(name), Err: errors.New("no skill has this name")}
}

// anothers reports whether a name is the ID of a skill that cannot be used, or one
// of another source, present or not: such a name belongs to that source.
func (n *Snapshot) anothers(name, source string) bool {
	label, _, colon := strings.Cut(name, ":")
	return colon && (reserved(label) && !strings.HasPrefix(name, source+":") || slices.ContainsFunc(n.skills, func(sk Skill) bool { return sk.ID.String() == name }) ||
		slices.ContainsFunc(n.mounts, func(m Mount) bool { return m.Label != source && strings.HasPrefix(name, m.Label+":") }))
}

// reserved reports whether a label is one that roots have by themselves, such as
// org or home-claude. What is named after such a root means the root's skill,
// also where the root is missing.
func reserved(label string) bool {
	base, _, _ := strings.Cut(label, "-")
	switch policy.Tier(base) {
	case policy.Builtin, policy.Org, policy.Project, policy.User, policy.ThirdParty:
		return true
	}
	return base == "home" || base == "harness" || base == "mcp"
}

// available lists names for an error, at most twenty, and those nearest to a misspelled one.
func (n *Snapshot) available(name string) string {
	var names []string
	for i := range n.skills {
		if n.skills[i].usable() {
			names = append(names, termtext.Line(n.skills[i].Name))
		}
	}
	text := listed(names[:min(len(names), mostListed)], len(names))
	if near := nearest.Names(name, names); len(near) > 0 {
		text = "did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "? " + text
	}
	return text
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

// Grants adds IDs to what allows skills by names with a colon, such as
// ckm:brand. Policy takes a pattern with a colon for an ID; Find knows whether
// the name means one skill and cannot be another one's ID. A session does this
// to its own grants.
func (n *Snapshot) Grants(g policy.Grants) policy.Grants {
	id := func(pattern string) (string, bool) {
		if !strings.Contains(pattern, ":") || strings.Contains(pattern, "*") {
			return "", false
		}
		sk, err := n.Find(pattern)
		if err != nil || sk.ID.String() == pattern || n.key(sk.Name) != n.key(pattern) {
			return "", false
		}
		return sk.ID.String(), true
	}
	g.Only, g.Skills = slices.Clone(g.Only), slices.Clone(g.Skills)
	for i, list := range g.Only {
		for _, pattern := range list {
			if at, ok := id(pattern); ok {
				g.Only[i] = append(slices.Clip(g.Only[i]), at)
			}
		}
	}
	for _, u := range slices.Clone(g.Skills) {
		if at, ok := id(u.Skill); ok && u.Effect == policy.RuleAllow {
			u.Skill = at
			g.Skills = append(g.Skills, u)
		}
	}
	return g
}

// entry is Find, and finds groups and documents too, by their IDs.
func (n *Snapshot) entry(name string) (Skill, error) {
	sk, is := n.others[name]
	if is && sk.State == Refused {
		d := n.decisive(&sk)
		return sk, &Error{Op: "find", Skill: name, Kind: Invalid, Code: d.Code, Err: errors.New(d.Detail)}
	}
	if is {
		return sk, nil
	}
	return n.Find(name)
}

// name gives usable skills their slugs and prepares lookups. The slug of a name is, in this order,
// that of the most trusted skill, of one that has it as its name, and of the first one in All.
func (n *Snapshot) name() {
	var order []int
	for i := range n.skills {
		if n.skills[i].usable() {
			order = append(order, i)
		}
	}
	other := func(sk *Skill) int { // sorts names that are slugs first
		var one slug.Set
		if one.Add(sk.Name) == sk.Name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &n.skills[a], &n.skills[b]
		return cmp.Or(trust(y.Tier)-trust(x.Tier), cmp.Compare(other(x), other(y)))
	})
	var slugs slug.Set
	for _, i := range order {
		n.skills[i].Slug = slugs.Add(n.skills[i].Name)
	}
	n.named, n.byID = sync.OnceValue(n.indexNames), sync.OnceValue(n.indexIDs)
}

// byName finds the usable skills of a snapshot by what people call them.
type byName struct {
	key  map[string]int // by match key: the first one
	text map[string]int // by ID; then by slug and by the name as it is shown
}

// indexNames prefers an ID to a name: the operator chose the ID, the skill its
// name.
func (n *Snapshot) indexNames() byName {
	by := byName{key: make(map[string]int, len(n.skills)), text: make(map[string]int, 2*len(n.skills))}
	add := func(m map[string]int, text string, i int) {
		if _, taken := m[text]; !taken {
			m[text] = i
		}
	}
	for i := range n.skills {
		if sk := &n.skills[i]; sk.usable() {
			add(by.key, n.key(sk.Name), i)
			by.text[sk.ID.String()] = i
		}
	}
	for i := range n.skills {
		if sk := &n.skills[i]; sk.usable() {
			add(by.text, sk.Slug, i)
			add(by.text, termtext.Line(sk.Name), i)
		}
	}
	return by
}

func (n *Snapshot) indexIDs() map[ID]int {
	by := make(map[ID]int, len(n.skills))
	for i := range n.skills {
		by[n.skills[i].ID] = i
	}
	return by
}
