package harness

import (
	"encoding/json"
	"strings"

	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/skillmd"
)

// leaf detects whether a folder is a leaf, and reads its main file.
func (r *reader) leaf(n *Node, list []confine.Entry) bool {
	if r.h.v2() {
		return r.marked(n, list)
	}
	if top(n.Path) != skillsDir || !file(list, skillFile) {
		return false
	}
	if file(list, skillsFile) { // the group's file wins
		r.note(skillmd.Warning, "harness-both-files", n.Path, "the folder has both SKILLS.md and SKILL.md, so it is a group and its SKILL.md is ignored")
		return false
	}
	r.skill(n, skillFile)
	return true
}

// marked detects the leaves of v2: by .harnessleaf, or by the first detector whose
// file exists. No detector is built in.
func (r *reader) marked(n *Node, list []confine.Entry) bool {
	if has(list, leafFile) {
		n.Kind, n.Type = Leaf, typeLeaf
		return true
	}
	for _, d := range r.h.Detectors {
		if !r.there(n, list, d.File) {
			continue
		}
		if d.Type == typeSkill {
			r.skill(n, d.File)
			return true
		}
		n.Kind, n.Type, n.File = Leaf, d.Type, d.File
		at, err := r.resolve(n.real, d.File)
		info, serr := r.dir.Stat(at)
		if err != nil || serr != nil || !info.Mode.IsRegular() { // the marker of a leaf need not be a readable file
			n.File = ""
			return true
		}
		if n.file = at; described(d.File) {
			r.describe(n, n.real, d.File)
		}
		return true
	}
	if r.opt.AnySkill && file(list, skillFile) {
		r.skill(n, skillFile)
		return true
	}
	return false
}

// there reports whether a folder contains a path.
func (r *reader) there(n *Node, list []confine.Entry, path string) bool {
	first, _, deep := strings.Cut(path, "/")
	if !has(list, first) {
		return false
	}
	if !deep {
		return true
	}
	_, err := r.dir.Stat(join(n.real, path))
	return err == nil
}

// skill reads the SKILL.md of a leaf. The naming rules of Agent Skills are only
// advice here, because a leaf is found by its path.
func (r *reader) skill(n *Node, mark string) {
	n.Kind, n.Type, n.File = Leaf, typeSkill, skillFile
	at := join(n.Path, skillFile)
	if mark != skillFile {
		if _, err := r.dir.Stat(join(n.real, skillFile)); err != nil {
			n.File = ""
			r.note(skillmd.Error, "harness-skill-file", n.Path, "missing SKILL.md: %s marks the leaf as a skill", termtext.Quote(mark))
			return
		}
	}
	front, ok := r.describe(n, n.real, skillFile)
	if !ok {
		return
	}
	if front.HasName {
		n.Name, n.named = front.Name, true
		if why := portable(front.Name, n.Base()); why != "" {
			r.note(skillmd.Advice, "name-not-portable", at, "%s", why)
		}
	} else {
		r.note(skillmd.Error, "missing-name", at, "Missing required field in frontmatter: name")
	}
	if !front.HasDescription {
		r.note(skillmd.Error, "missing-description", at, "Missing required field in frontmatter: description")
	}
}

// portable reports why a skill with this name and folder would be invalid outside
// the harness, or "".
func portable(name, folder string) string {
	quoted, _ := json.Marshal(name) // a string always marshals, and JSON is YAML
	for _, d := range skillmd.Validate([]byte("---\nname: "+string(quoted)+"\ndescription: Use when asked.\n---\n"), skillmd.Folder{Name: folder}) {
		if d.Severity == skillmd.Error {
			return "valid in a harness, but invalid as a separate skill: " + d.Detail
		}
	}
	return ""
}
