package engine

import (
	"os"
	"path/filepath"

	"metier/config"
	"metier/policy"
)

// nestedRepositories returns the git metadata in the repositories below a workspace, such as clones,
// worktrees, and bare repositories. most limits how many folders are read; whole reports whether it
// was enough. Folders named node_modules are not searched.
func nestedRepositories(workspace string, most int, env config.Env) (out []string, whole bool) {
	left, whole := []string{workspace}, true
	for read := 0; len(left) > 0; read++ {
		if read == most {
			return out, false
		}
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // no program of the user's reads it either
		}
		names := map[string]bool{}
		for _, e := range entries {
			switch names[e.Name()] = true; {
			case !e.IsDir(), e.Name() == ".git", e.Name() == ".metier", e.Name() == "node_modules":
			default:
				left = append(left, filepath.Join(dir, e.Name()))
			}
		}
		bare := names["HEAD"] && (names["objects"] || names["commondir"])
		if dir != workspace && (names[".git"] || bare) {
			paths, partial := repositories(dir, env)
			out, whole = append(append(out, filepath.Join(dir, ".git")), paths...), whole && !partial
		}
	}
	return out, whole
}

// nested is what nestedRepositories returns, as it was when the run or the list of skills started.
// Finding it again before each program would take too long.
func (s *Skills) nested(workspace string, most int, env config.Env) ([]string, bool) {
	if s == nil {
		return nestedRepositories(workspace, most, env)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.repositories[workspace]
	if !known {
		l.paths, l.whole = nestedRepositories(workspace, most, env)
		if s.repositories == nil {
			s.repositories = map[string]links{}
		}
		s.repositories[workspace] = l
	}
	return l.paths, l.whole
}

// changes reports whether a tool of the launch can change files.
func (l Launch) changes() bool {
	for _, t := range l.Tools {
		if effect, known := config.ToolEffect(t); !known || effect != policy.Read {
			return true
		}
	}
	return false
}
