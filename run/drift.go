package run

import (
	"bytes"
	"cmp"
	"context"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/record"
	"metier/registry"
)

// Now returns the current digests of a skill on disk: of its SKILL.md and of its tree. The tree may
// be "" if it is unknown. An error means that the skill cannot be read, which counts as gone.
type Now func(skillID string) (file, tree string, err error)

// Drift compares active skills with those on disk. It returns one SkillDrifted for each SKILL.md
// whose digest differs from the recorded one, and one for each tree that changed around an
// unchanged SKILL.md. Choice is empty: the caller decides what to do and records it. Skills without
// a SkillDrifted are verified.
func Drift(active []event.SkillActivated, now Now) []event.SkillDrifted {
	var out []event.SkillDrifted
	for _, a := range active {
		file, tree, err := now(a.SkillID)
		if err != nil {
			file, tree = "", ""
		}
		path := cmp.Or(a.Path, a.HostPath)
		switch {
		case file != a.Hash:
			out = append(out, event.SkillDrifted{SkillID: a.SkillID, Path: path, Was: a.Hash, Now: file})
		case a.Tree != "" && tree != "" && tree != a.Tree:
			out = append(out, event.SkillDrifted{SkillID: a.SkillID, Path: cmp.Or(a.Dir, dirOf(path)), Was: a.Tree, Now: tree})
		}
	}
	return out
}

// Since compares recorded skills, active or not, with the current ones. If the files of a skill
// were recorded, it returns one SkillDrifted for each file that changed, was removed (Now is empty)
// or was added (Was is empty). It returns one for each removed skill, and one for each added skill,
// with the path of its SKILL.md. Choice is empty, as in Drift.
func Since(was, now []registry.Skill) []event.SkillDrifted {
	var out []event.SkillDrifted
	there, known := registry.List{Skills: now}.ByID(), registry.List{Skills: was}.ByID()
	for _, w := range was {
		n, found := there[w.ID]
		if !found {
			out = append(out, event.SkillDrifted{SkillID: w.ID, Path: w.SkillPath, Was: cmp.Or(w.Digest, w.Tree)})
			continue
		}
		if w.Digest != "" && n.Digest != "" && n.Digest != w.Digest {
			out = append(out, event.SkillDrifted{SkillID: w.ID, Path: w.SkillPath, Was: w.Digest, Now: n.Digest})
		}
		if w.Indexed && n.Indexed {
			out = append(out, filesSince(w, n)...)
		}
	}
	for _, n := range now {
		if _, listed := known[n.ID]; !listed {
			out = append(out, event.SkillDrifted{SkillID: n.ID, Path: n.SkillPath, Now: cmp.Or(n.Digest, n.Tree)})
		}
	}
	return out
}

// filesSince compares the files of one skill other than SKILL.md, by path. If only a mode changed,
// it returns one SkillDrifted for the tree.
func filesSince(was, now registry.Skill) (out []event.SkillDrifted) {
	old, there := map[string]string{}, map[string]bool{}
	for _, f := range was.Resources {
		old[f.Path] = f.Digest
	}
	drifted := func(path, before, after string) {
		if before != after && was.SkillDir+"/"+path != was.SkillPath {
			out = append(out, event.SkillDrifted{SkillID: was.ID, Path: was.SkillDir + "/" + path, Was: before, Now: after})
		}
	}
	for _, f := range now.Resources {
		there[f.Path] = true
		drifted(f.Path, old[f.Path], f.Digest)
	}
	for _, f := range was.Resources {
		if !there[f.Path] {
			drifted(f.Path, f.Digest, "")
		}
	}
	if len(out) == 0 && was.Digest == now.Digest && was.Tree != now.Tree {
		out = append(out, event.SkillDrifted{SkillID: was.ID, Path: was.SkillDir, Was: was.Tree, Now: now.Tree})
	}
	return out
}

// ReplayReport is what a record proves about the skills a run used.
type ReplayReport struct {
	ID       string               `json:"id"`
	OK       bool                 `json:"ok"`
	Head     record.Head          `json:"head"`
	Active   []ReplayedSkill      `json:"active"`  // the active set at the end, in order of first activation
	Changed  []event.SkillDrifted `json:"changed"` // hashes that are not the recorded ones any more
	Problems []record.Problem     `json:"problems"`
}

// ReplayedSkill is one skill of the active set. State is verified, changed, gone (changed, and
// nothing is left) or unchecked. Original reports what the record still has of SKILL.md: held (the
// bytes of Hash), redacted (a secret was removed), erased, or altered.
type ReplayedSkill struct {
	SkillID          string `json:"skillId"`
	Name             string `json:"name"`
	Hash             string `json:"hash"`
	Tree             string `json:"tree"`
	Tier             string `json:"tier"`
	ActivationSource string `json:"activationSource"`
	State            string `json:"state"`
	Original         string `json:"original"`
}

// Replay folds the log from its first entry and checks the chain, the heads, and every digest. If
// now is not nil, it also compares the active set with the skills on disk.
func Replay(ctx context.Context, f *Folder, now Now) (ReplayReport, error) {
	r := ReplayReport{ID: f.id, Active: []ReplayedSkill{}, Changed: []event.SkillDrifted{}}
	rec, err := f.verifyRecord(ctx)
	if err != nil {
		return r, err
	}
	r.Head, r.Problems = rec.Head, rec.Problems
	p, err := f.projector(ctx)
	if err != nil {
		return r, err
	}
	if err := p.h.must(); err != nil {
		return r, err
	}
	active := p.active()
	if now != nil {
		r.Changed = some(Drift(active, now))
	}
	for _, a := range active {
		s := ReplayedSkill{SkillID: a.SkillID, Name: a.Name, Hash: a.Hash, Tree: a.Tree, Tier: string(a.Source.Or()), ActivationSource: a.ActivationSource}
		s.State = stateOf(a, r.Changed, now != nil)
		s.Original = p.original(a)
		if s.Original == "altered" {
			r.Problems = append(r.Problems, record.Problem{Code: record.CodeBlobAltered, Detail: "the recorded SKILL.md of " + a.SkillID + " is not what was activated"})
		}
		r.Active = append(r.Active, s)
	}
	if p.c.err != nil {
		return r, p.c.err
	}
	r.OK = rec.OK() && len(r.Problems) == 0 && len(r.Changed) == 0
	return r, nil
}

func stateOf(a event.SkillActivated, changed []event.SkillDrifted, looked bool) string {
	for _, d := range changed {
		if d.SkillID == a.SkillID {
			if d.Now == "" {
				return "gone"
			}
			return "changed"
		}
	}
	if !looked {
		return "unchecked"
	}
	return "verified"
}

func (p *projector) original(a event.SkillActivated) string {
	b, gap := p.c.load(a.Original)
	switch {
	case gap != nil && gap.Altered:
		return "altered"
	case gap != nil || b == nil:
		return "erased"
	case digest.Bytes(b) == a.Hash:
		return "held"
	case bytes.Contains(b, []byte("[redacted:")):
		return "redacted"
	}
	return "altered"
}

// Err returns an error that names the changed hash if a skill has changed, and nil otherwise.
func (r ReplayReport) Err() error {
	if len(r.Changed) > 0 {
		d := r.Changed[0]
		return wrong(metier.Drift, CodeDrift, d.Path, "restore the file, or start a new run with the new text",
			"%s was %s when it was activated and is %s", d.SkillID, d.Was, cmp.Or(d.Now, "gone"))
	}
	if len(r.Problems) > 0 {
		pr := r.Problems[0]
		return wrong(metier.Drift, string(pr.Code), r.ID, "'metier audit verify RUN' lists every problem and what to do", "entry %d: %s", pr.Seq, pr.Detail)
	}
	return nil
}
