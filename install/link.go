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
	"metier/internal/rootfile"
)

// link is a link in the skills folder of another agent.
type link struct {
	Agent string `json:"agent"`
	Dir   string `json:"dir"`  // the real path of the agent's folder
	Name  string `json:"name"` // of the skill
}

// at returns the path of a link. Two agents can have the same folder, and so the same link.
func (l link) at() string { return filepath.Join(l.Dir, l.Name) }

// hasLink reports whether a link is in a list.
func hasLink(list []link, l link) bool {
	return slices.ContainsFunc(list, func(x link) bool { return x.at() == l.at() })
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
		if l := (link{agent, dir, name}); dir != "" && !hasLink(out, l) {
			out = append(out, l)
		}
	}
	return out, nil
}

// agentDir returns the real path of the skills folder of an agent, or "" if it is the store itself.
func (s *Store) agentDir(agent string) (string, error) {
	if s.o.AgentDir == nil {
		return "", metier.Fieldf(metier.Invalid, "Request.Agents", "agent_unknown", "", "this store has no folders of other agents")
	}
	if real, ok := s.dirs[agent]; ok {
		return real, nil
	}
	dir, err := s.o.AgentDir(agent)
	if err != nil {
		return "", err
	}
	real := confine.RealPathOfExisting(dir)
	switch base := confine.RealPathOfExisting(s.o.Base); {
	case real == s.real:
		real = ""
	case !confine.Within(base, real):
		return "", metier.Fieldf(metier.Denied, "Request.Agents", "agent_folder_outside", "remove the link", "%s leads out of %s", dir, s.o.Base)
	case inRepository(base, real):
		return "", metier.Fieldf(metier.Denied, "Request.Agents", "agent_folder_outside", "remove the link", "%s leads to %s, in the data of a version control system", dir, real)
	}
	s.dirs[agent] = real
	return real, nil
}

// target returns what a link contains.
func (s *Store) target(l link) (string, error) {
	return filepath.Rel(l.Dir, filepath.Join(s.real, l.Name))
}

// linked reports whether a link exists. Anything else in its place is an error.
func (s *Store) linked(l link) (bool, error) {
	want, err := s.target(l)
	if err != nil {
		return false, err
	}
	path := l.at()
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

// hasSkill reports whether an installed skill is a folder with a SKILL.md.
func (s *Store) hasSkill(name string) bool {
	dir, err := rootfile.Enter(s.root, name)
	if err != nil {
		return false
	}
	defer dir.Close()
	return slices.ContainsFunc([]string{"SKILL.md", "skill.md"}, func(file string) bool {
		info, err := dir.Lstat(file)
		return err == nil && info.Mode().IsRegular()
	})
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
	return os.Symlink(to, l.at())
}

// disconnect removes a link. What is not that link stays.
func (s *Store) disconnect(l link) error {
	if there, err := s.linked(l); !there || err != nil {
		return nil
	}
	return os.Remove(l.at())
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
		if !hasLink(create, l) {
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
