package sandbox

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Check reports what is invalid in a Job, independent of the backend. Every backend calls it before
// it does anything.
func (j *Job) Check() error {
	if len(j.Argv) == 0 || j.Argv[0] == "" {
		return fmt.Errorf("the job names no program")
	}
	for i, a := range j.Argv {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument %d contains a NUL byte", i)
		}
	}
	for i, kv := range j.Env {
		switch k, _, ok := strings.Cut(kv, "="); { // a value may be a secret, so errors never show one
		case !ok || k == "":
			return fmt.Errorf("variable %d of the environment is not KEY=VALUE", i)
		case strings.ContainsRune(kv, 0):
			return fmt.Errorf("the variable %q contains a NUL byte", k)
		}
	}
	if j.Dir != "" && !rooted(j.Dir) {
		return fmt.Errorf("the working folder %q is not a clean absolute path", j.Dir)
	}
	if j.MinLevel < L0 || j.MinLevel > L3 {
		return fmt.Errorf("%v is not an isolation level", j.MinLevel)
	}
	for _, check := range []func() error{j.checkTrees, j.checkWorkspace, j.Limits.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// rooted reports whether p is a clean absolute slash path without NUL.
func rooted(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

// below reports whether p is a clean relative slash path strictly below its base folder.
func below(p string) bool {
	return p != "" && p != "." && rooted("/"+p) && p != ".." && !strings.HasPrefix(p, "../")
}

// Start returns the program's initial working folder.
func (j *Job) Start() string {
	switch {
	case j.Dir != "":
		return j.Dir
	case j.Workspace != nil:
		return WorkspaceDir
	}
	return ScratchDir
}

// Search returns the folders in which a program without a slash in its name is looked up: those of
// the last PATH in Env. Relative folders are left out, so that files in the working folder are not
// commands.
func (j *Job) Search() []string {
	var dirs []string
	for _, kv := range j.Env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs = slices.DeleteFunc(strings.Split(list, ":"), func(d string) bool { return !path.IsAbs(d) })
		}
	}
	return dirs
}

func (j *Job) checkTrees() error {
	seen := map[string]bool{}
	for _, t := range j.Trees {
		if !rooted(t.Path) || !strings.HasPrefix(t.Path, SkillsDir+"/") {
			return fmt.Errorf("a tree belongs at a clean path below %s, not at %q", SkillsDir, t.Path)
		}
		for p := range seen {
			if t.Path == p || strings.HasPrefix(t.Path, p+"/") || strings.HasPrefix(p, t.Path+"/") {
				return fmt.Errorf("the trees %s and %s are in each other's way", p, t.Path)
			}
		}
		seen[t.Path] = true
		if err := t.check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) check() error {
	files, dirs := map[string]bool{}, map[string]bool{}
	for _, f := range t.Files {
		if !below(f.Path) {
			return fmt.Errorf("the tree %s: %q is not a clean path of a file in it", t.Path, f.Path)
		}
		if files[f.Path] {
			return fmt.Errorf("the tree %s contains %s twice", t.Path, f.Path)
		}
		files[f.Path] = true
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for f := range files {
		if dirs[f] {
			return fmt.Errorf("the tree %s: %s is a file and a folder", t.Path, f)
		}
	}
	return nil
}

func (j *Job) checkWorkspace() error {
	w := j.Workspace
	if w == nil {
		return nil
	}
	if !filepath.IsAbs(w.Host) || filepath.Clean(w.Host) != w.Host || strings.ContainsRune(w.Host, 0) {
		return fmt.Errorf("the workspace %q is not a clean absolute path", w.Host)
	}
	for _, list := range [][]string{w.ReadOnly, w.Hidden} {
		for _, p := range list {
			if !below(p) {
				return fmt.Errorf("%q is not a clean path in the workspace", p)
			}
		}
	}
	return nil
}

func (l Limits) check() error {
	for _, v := range []int64{int64(l.Wall), int64(l.CPU), l.Output, l.Memory, int64(l.Processes), l.FileSize, l.Scratch,
		int64(l.ScratchFiles), int64(l.OpenFiles)} {
		if v < 0 {
			return fmt.Errorf("a limit is negative: %+v", l)
		}
	}
	return nil
}
