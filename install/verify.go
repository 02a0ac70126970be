package install

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"metier"
	"metier/signature"
	"metier/source/local"
)

// State is how an installed skill compares with the lock.
type State string

// The states.
const (
	Intact   State = "intact"
	Modified State = "modified" // its files differ from the lock
	Missing  State = "missing"  // its folder does not exist
	Unlocked State = "unlocked" // it is in the folder, but not in the lock
	Damaged  State = "damaged"  // it cannot be read completely
	Forged   State = "forged"   // its files match the lock, but their signatures do not match them, or the lock
)

// Verified is the result of verifying one skill.
type Verified struct {
	Name  string       `json:"name"`
	State State        `json:"state"`
	Entry *Entry       `json:"entry,omitempty"` // of the lock
	Files []FileChange `json:"files,omitempty"` // that differ from the lock
	Err   error        `json:"-"`               // why it is damaged or forged
	// Signature is what is known about the signers, if the files match the lock.
	Signature *signature.Result `json:"signature,omitempty"`
}

// Verify compares the installed skills with the lock, by name. names limits it to some of them.
func (s *Store) Verify(ctx context.Context, names []string) ([]Verified, error) {
	for _, n := range names {
		if _, ok := s.lock.Skills[n]; !ok {
			return nil, metier.Fieldf(metier.NotFound, "Request.Skills", "skill_not_installed", "use the name of a skill in the lock", "%s has no skill %q", s.o.Lock, n)
		}
	}
	var out []Verified
	for _, name := range slices.Sorted(maps.Keys(s.lock.Skills)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := s.lock.Skills[name]
		v := Verified{Name: name, State: Intact, Entry: &e}
		m, err := s.manifest(ctx, name)
		switch {
		case metier.KindOf(err) == metier.NotFound:
			v.State = Missing
		case err != nil:
			v.State, v.Err = Damaged, err
		case string(m.Tree) != e.Tree:
			v.State, v.Files = Modified, differences(e.Files, lockedFiles(m))
		default:
			if v.Signature, err = s.installed(ctx, name, e); err != nil {
				v.State, v.Err = Forged, err
			}
		}
		out = append(out, v)
	}
	if len(names) == 0 {
		unlocked, err := s.unlocked(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, unlocked...)
	}
	slices.SortFunc(out, func(a, b Verified) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// unlocked returns the skills in the folder that are not in the lock, as they would be found: also those
// in folders of folders, and behind links that stay in the project. Their names are their paths.
func (s *Store) unlocked(ctx context.Context) ([]Verified, error) {
	src, err := local.New(s.o.Dir, &local.Options{Installed: true, Entry: entryFile(s.o.Harnesses), AllowedRoots: []string{s.o.Base}})
	if err != nil {
		return nil, err
	}
	var out []Verified
	for h, err := range src.List(ctx) {
		if err != nil {
			return nil, err
		}
		if _, ok := s.lock.Skills[h.Path]; !ok {
			out = append(out, Verified{Name: h.Path, State: Unlocked})
		}
	}
	return out, nil
}
