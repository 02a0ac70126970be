package engine

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/filetool"
	"metier/internal/confine"
	"metier/internal/namedfile"
	"metier/skillroots"
)

// mostLinks is how many symbolic links are followed in one path.
const mostLinks = 40

// ways caches what is at each path while many paths are resolved, which may share links.
type ways map[string]onWay

type onWay struct {
	there  bool
	target string // of a symbolic link; "" for anything else
}

func (w ways) at(path string) onWay {
	p, known := w[path]
	if known {
		return p
	}
	if info, err := os.Lstat(path); err == nil {
		p.there = true
		if info.Mode()&os.ModeSymlink != 0 {
			p.target, _ = os.Readlink(path) // one that is gone by now leads nowhere
		}
	}
	w[path] = p
	return p
}

// inWorkspace returns the slash-separated workspace paths that a host path passes through: each
// symbolic link on the way, and the end of the path, which may not exist. A program that can change
// one of them can change what the path refers to. The workspace's own path has no links.
func (w ways) inWorkspace(workspace, p string) []string {
	links, end := w.follow(workspace, p)
	if end != "" {
		links = append(links, end)
	}
	return links
}

// follow returns the symbolic links in a workspace that a host path passes through, and its end if
// that is in the workspace, as slash-separated paths.
func (w ways) follow(workspace, p string) (links []string, end string) {
	inside := func(at string) string {
		if rel, err := filepath.Rel(workspace, at); err == nil && filepath.IsLocal(rel) && rel != "." {
			return filepath.ToSlash(rel)
		}
		return ""
	}
	const sep = string(filepath.Separator)
	top := filepath.VolumeName(p) + sep
	at, todo := top, strings.Split(filepath.Clean(p)[len(top):], sep)
	for followed := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		found := w.at(next)
		if !found.there {
			at = filepath.Join(append([]string{next}, todo...)...)
			break
		}
		if found.target == "" {
			at = next
			continue
		}
		if link := inside(next); link != "" {
			links = append(links, link)
		}
		if followed++; followed > mostLinks {
			return links, "" // nothing can be opened by this path
		}
		target := found.target
		if filepath.IsAbs(target) {
			top = filepath.VolumeName(target) + sep
			at, target = top, target[len(top):]
		}
		todo = append(strings.Split(target, sep), todo...)
	}
	return links, inside(at)
}

// linkedIn returns the first workspace in which a path passes through a symbolic link, or "", and the
// real path of its end if that is in a workspace, or "". These are the given workspaces, and those in
// which metier has run. A program may have created the link: to a file elsewhere, or to a protected one.
func (e *Engine) linkedIn(p string, workspaces ...string) (dir, real string) {
	known := ways{}
	for _, dir := range append(slices.Sorted(maps.Values(e.projects())), workspaces...) {
		links, end := known.follow(dir, p)
		if len(links) > 0 {
			return dir, ""
		}
		if end != "" {
			real = filepath.Join(dir, filepath.FromSlash(end))
		}
	}
	return "", real
}

// ReadInput reads a file of at most most bytes that the user named and that a model will see. It fails
// for the links for which CheckOutput fails.
func (e *Engine) ReadInput(file string, most int64, workspace string) ([]byte, error) {
	file = e.Env.Path(file)
	dir, real := e.linkedIn(file, confine.RealPathOfExisting(e.Env.Path(cmp.Or(workspace, e.Env.Dir))))
	if dir != "" {
		return nil, fmt.Errorf("%s: a symbolic link in the workspace %s leads to it; specify the file itself", confine.RealPathOfExisting(file), dir)
	}
	if real == "" {
		return namedfile.Read(file, most)
	}
	root, err := confine.OpenRoot(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return namedfile.ReadIn(root, filepath.Base(real), most)
}

// settleMounts returns mounts whose sources have no symbolic links. It fails for a link in the
// workspace, or in another one in which metier has run: a program may have replaced the source. The
// sources of a resumed run are settled, so they have no links anywhere.
func (e *Engine) settleMounts(workspace string, mounts []filetool.Mount, resumed bool) ([]filetool.Mount, error) {
	out := slices.Clone(mounts)
	for i, m := range mounts {
		source := e.Env.Path(m.Source)
		real, err := confine.RealPath(source)
		if err != nil {
			continue // opening the mount reports it
		}
		dir, _ := e.linkedIn(source, workspace)
		if dir != "" || resumed && real != source {
			err := fmt.Errorf("the folder is now a symbolic link, or below one, that leads to %s", real)
			if dir != "" {
				err = fmt.Errorf("a symbolic link in the workspace %s, which a program may have created, leads to %s", dir, real)
			}
			return nil, &metier.Error{Op: "mount " + m.Target, Path: source, Kind: metier.Denied, Code: "mount_leads_out", Field: "Request.Mounts",
				Hint: "if you trust the link, name its target with Request.Mounts", Err: err}
		}
		out[i].Source = real
	}
	return out, nil
}

// linkedSkills returns the symbolic links below a folder of skills that lead to skills elsewhere in
// the workspace. most limits how many folders are read, as in a scan; whole reports whether it was
// enough.
func linkedSkills(workspace, folder string, nested bool, most int) (out []string, whole bool) {
	whole = true
	seen := map[string]bool{}
	var walk func(real string)
	follow := func(link string) {
		if real, err := confine.RealPath(link); err == nil && confine.Within(workspace, real) {
			walk(real)
		}
	}
	walk = func(real string) {
		if seen[real] {
			return
		}
		if len(seen) == most {
			whole = false
			return
		}
		seen[real] = true
		entries, err := os.ReadDir(real)
		if err != nil {
			return // it gives no skills
		}
		skill := slices.ContainsFunc(entries, skillroots.IsSkillFile)
		for _, e := range entries {
			if skill && !nested && !skillroots.IsSkillFile(e) {
				continue // a file of the skill
			}
			path, link := filepath.Join(real, e.Name()), e.Type()&os.ModeSymlink != 0
			if link || real == workspace && skillroots.IsSkillFile(e) { // the workspace itself can be a skill
				out = append(out, path)
			}
			switch {
			case real == workspace:
			case link:
				follow(path)
			case e.IsDir():
				walk(path)
			}
		}
	}
	if real, err := confine.RealPath(folder); err == nil {
		walk(real)
	}
	return out, whole
}
