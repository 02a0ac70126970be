package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
)

// link is a link in the skills folder of another agent.
type link struct {
	Dir  string `json:"dir"`  // the folder
	Name string `json:"name"` // of the skill
}

// links returns the links that a skill has, by its entry.
func (s *Store) links(name string, e *Entry) ([]link, error) {
	if e == nil {
		return nil, nil
	}
	var out []link
	for _, agent := range e.Agents {
		dir, err := s.agentDir(agent)
		if err != nil {
			return nil, err
		}
		if dir != "" && !slices.Contains(out, link{dir, name}) {
			out = append(out, link{dir, name})
		}
	}
	return out, nil
}

// agentDir returns the real path of the skills folder of an agent, or "" if it is the store itself.
func (s *Store) agentDir(agent string) (string, error) {
	if s.o.AgentDir == nil {
		return "", metier.Fieldf(metier.Invalid, "Request.Agents", "agent_unknown", "", "this store has no folders of other agents")
	}
	dir, err := s.o.AgentDir(agent)
	if err != nil {
		return "", err
	}
	real := confine.RealPathOfExisting(dir)
	if real == confine.RealPathOfExisting(s.o.Dir) {
		return "", nil
	}
	if base := confine.RealPathOfExisting(s.o.Base); !confine.Within(base, real) {
		return "", metier.Fieldf(metier.Denied, "Request.Agents", "agent_folder_outside", "remove the link", "%s leads out of %s", dir, s.o.Base)
	}
	return real, nil
}

// target returns what a link contains.
func (s *Store) target(l link) (string, error) {
	return filepath.Rel(l.Dir, filepath.Join(confine.RealPathOfExisting(s.o.Dir), l.Name))
}

// linked reports whether a link exists. Anything else in its place is an error.
func (s *Store) linked(l link) (bool, error) {
	want, err := s.target(l)
	if err != nil {
		return false, err
	}
	path := filepath.Join(l.Dir, l.Name)
	got, err := os.Readlink(path)
	switch {
	case err == nil && got == want:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil:
		err = fmt.Errorf("it is a link to %s", got)
	default:
		err = errors.New("it is not a link")
	}
	return false, &metier.Error{Op: "link", Path: path, Field: "Request.Agents", Kind: metier.Conflict, Code: "skill_exists", Hint: "remove it, or leave this agent out", Err: err}
}

// connect creates a link.
func (s *Store) connect(l link) error {
	if done, err := s.linked(l); done || err != nil {
		return err
	}
	if err := atomicfile.At(step, l.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	to, err := s.target(l)
	if err != nil {
		return err
	}
	return os.Symlink(to, filepath.Join(l.Dir, l.Name))
}

// disconnect removes a link. What is not that link stays.
func (s *Store) disconnect(l link) error {
	if there, err := s.linked(l); !there || err != nil {
		return nil
	}
	return os.Remove(filepath.Join(l.Dir, l.Name))
}

// relink returns the links that a change creates, and those that it removes.
func (s *Store) relink(c Change) (create, remove []link, err error) {
	old, err := s.links(c.Name, c.Was)
	if err != nil {
		return nil, nil, err
	}
	if c.Action != Remove {
		if create, err = s.links(c.Name, &c.Entry); err != nil {
			return nil, nil, err
		}
	}
	for _, l := range old {
		if !slices.Contains(create, l) {
			remove = append(remove, l)
		}
	}
	return create, remove, nil
}

// Relink returns a plan that gives all skills of the lock links in the folders of these agents, in
// addition to those that they have.
func (s *Store) Relink(agents []string) (*Plan, error) {
	p := &Plan{store: s, id: s.o.ID()}
	for name, was := range s.lock.Skills {
		c := Change{Name: name, Action: Keep, Was: &was, Entry: was}
		c.Entry.Agents = union(was.Agents, agents)
		p.Changes = append(p.Changes, c)
	}
	return p, p.order()
}

// union returns the sorted names in a or b.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
