package unconfined

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"metier/sandbox"
)

// location maps the folders of a job to the host.
type location struct {
	dir   string      // created for the job, removed with it
	roots [][2]string // path in the sandbox, path on the host; more specific first
}

// stage creates the trees and the scratch folder of a job.
func (h *Host) stage(j sandbox.Job) (p *location, err error) {
	if err := os.MkdirAll(h.temp, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(h.temp, "metier-unsafe-")
	if err != nil {
		return nil, err
	}
	p = &location{dir: dir}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	scratch := filepath.Join(dir, "tmp")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	for _, t := range j.Trees {
		at := filepath.Join(dir, filepath.FromSlash(t.Path))
		if err := write(t, at); err != nil {
			return nil, err
		}
		p.roots = append(p.roots, [2]string{t.Path, at})
	}
	if j.Workspace != nil {
		p.roots = append(p.roots, [2]string{sandbox.WorkspaceDir, j.Workspace.Host})
	}
	p.roots = append(p.roots, [2]string{sandbox.SkillsDir, filepath.Join(dir, "skills")}, [2]string{sandbox.ScratchDir, scratch})
	return p, nil
}

func write(t sandbox.Tree, at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	for _, f := range t.Files {
		name := filepath.Join(at, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		mode := fs.FileMode(0o400)
		if f.Exec {
			mode = 0o500
		}
		if err := writeFile(name, f.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file while no other goroutine forks: the child would have the file open for
// writing for a moment, and the kernel would refuse to execute it (ETXTBSY).
func writeFile(name string, data []byte, mode fs.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, data, mode)
}

// remove deletes the job's folder, even if the program changed file modes in it.
func (p *location) remove() {
	if os.RemoveAll(p.dir) == nil {
		return
	}
	_ = filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(p.dir)
}

// host converts a path in the sandbox to one on the host. It returns other strings unchanged.
func (p *location) host(s string) string {
	for _, r := range p.roots {
		if s == r[0] {
			return r[1]
		}
		if rest, ok := strings.CutPrefix(s, r[0]+"/"); ok && path.Clean(s) == strings.TrimSuffix(s, "/") {
			return r[1] + string(filepath.Separator) + filepath.FromSlash(rest)
		}
	}
	return s
}

// command returns the command that runs the job on the host. Call done after starting it, to close
// its working folder.
func (p *location) command(j sandbox.Job) (_ *exec.Cmd, done func(), err error) {
	cmd := &exec.Cmd{Env: []string{}}
	for _, a := range j.Argv {
		cmd.Args = append(cmd.Args, p.host(a))
	}
	for _, kv := range j.Env {
		k, v, _ := strings.Cut(kv, "=")
		cmd.Env = append(cmd.Env, k+"="+p.host(v))
	}
	if cmd.Path, err = look(cmd.Args[0], cmd.Env); err != nil {
		return nil, nil, err
	}
	f, err := folder(j)
	if err != nil {
		return nil, nil, fmt.Errorf("the working folder: %w", err)
	}
	if f == nil {
		cmd.Dir = p.host(j.Start())
		return cmd, func() {}, nil
	}
	cmd.Dir = held(f)
	return cmd, func() { _ = f.Close() }, nil
}

// look finds a program. It looks up a name without a slash in the job's PATH, never in the working
// folder.
func look(name string, env []string) (string, error) {
	if strings.ContainsAny(name, "/"+string(filepath.Separator)) {
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("the program %q is a relative path: write it with its folder, or as a name alone", name)
		}
		return exec.LookPath(name)
	}
	for _, kv := range slices.Backward(env) { // the last value counts, as for the program
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue
			}
			found, err := exec.LookPath(filepath.Join(dir, name))
			if err == nil {
				return found, nil
			}
		}
		break
	}
	return "", &exec.Error{Name: name, Err: errors.Join(exec.ErrNotFound, fs.ErrNotExist)}
}
