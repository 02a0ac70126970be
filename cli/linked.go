package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostLinks is how many symbolic links are followed on the way to one path.
const mostLinks = 40

// inWorkspace returns the slash paths in a workspace that a host path leads
// through: each symbolic link on the way that is there, and the end of the path,
// which may not exist. A program that can change one of them changes what the
// path means. The workspace has no links in its own path.
func inWorkspace(workspace, p string) (out []string) {
	add := func(at string) {
		if rel, err := filepath.Rel(workspace, at); err == nil && filepath.IsLocal(rel) && rel != "." {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	const sep = string(filepath.Separator)
	top := filepath.VolumeName(p) + sep
	at, todo := top, strings.Split(filepath.Clean(p)[len(top):], sep)
	for links := 0; len(todo) > 0; {
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
		info, err := os.Lstat(next)
		if err != nil {
			at = filepath.Join(append([]string{next}, todo...)...)
			break
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		add(next)
		target, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return out // nothing can be opened by this path
		}
		if filepath.IsAbs(target) {
			top = filepath.VolumeName(target) + sep
			at, target = top, target[len(top):]
		}
		todo = append(strings.Split(target, sep), todo...)
	}
	add(at)
	return out
}

// leadsOut reports whether a path leads through the workspace and, by a symbolic link
// there, out of it. A program can have made such a link.
func leadsOut(workspace, p string) bool {
	return len(inWorkspace(workspace, p)) > 0 && !within(workspace, p)
}

// linkedSkills returns the symbolic links below a folder of skills by which
// skills elsewhere in the workspace are found. most limits the folders that are
// read, as it does for a scan.
func linkedSkills(workspace, folder string, nested bool, most int) (out []string) {
	seen := map[string]bool{}
	var walk func(real string)
	follow := func(link string) {
		if real, err := filepath.EvalSymlinks(link); err == nil && within(workspace, real) {
			walk(real)
		}
	}
	walk = func(real string) {
		if seen[real] || len(seen) == most {
			return
		}
		seen[real] = true
		entries, err := os.ReadDir(real)
		if err != nil {
			return // it gives no skills
		}
		skill := slices.ContainsFunc(entries, isSkillFile)
		for _, e := range entries {
			if skill && !nested && !isSkillFile(e) {
				continue // a file of the skill
			}
			path, link := filepath.Join(real, e.Name()), e.Type()&os.ModeSymlink != 0
			if link || real == workspace && isSkillFile(e) { // the workspace itself can be a skill
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
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		walk(real)
	}
	return out
}

func isSkillFile(e os.DirEntry) bool { return strings.EqualFold(e.Name(), "SKILL.md") }

// gitFolders returns the folders that a .git file of a folder names: that of the
// worktree, and that of its repository.
func gitFolders(dir string) (out []string) {
	read := func(dir, name string) string {
		b, _, err := beneath(dir, name, 4<<10) // no file: nothing is named
		if err != nil {
			return ""
		}
		line, _, _ := strings.Cut(string(b), "\n")
		return strings.TrimRight(line, "\r ")
	}
	place := func(base, p string) string {
		if !filepath.IsAbs(p) {
			p = filepath.Join(base, p)
		}
		out = append(out, p)
		return p
	}
	if p, is := strings.CutPrefix(read(dir, ".git"), "gitdir:"); is && strings.TrimSpace(p) != "" {
		own := place(dir, strings.TrimSpace(p))
		if p := read(own, "commondir"); p != "" {
			place(own, p)
		}
	}
	return out
}
