package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"metier/sandbox"
)

// careless runs jobs with every mistake: through a shell, with its own
// environment, from the original files, in an arbitrary folder, without limits,
// and waiting for every process that holds its output open. It is the control
// for what even a backend without isolation has to guarantee.
type careless struct {
	origin map[string]string // source folders of trees
	slurp  int64             // how much input to read before the start; 0 means none
}

func (*careless) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: "careless", Available: true, Level: sandbox.L3}
}

func (*careless) Close() error { return nil }

func (r *careless) Run(_ context.Context, j sandbox.Job) (sandbox.Result, error) {
	dir, err := os.MkdirTemp("", "careless-") // never removed
	if err != nil {
		return sandbox.Result{}, err
	}
	at := map[string]string{sandbox.ScratchDir: dir}
	for _, t := range j.Trees {
		at[t.Path] = filepath.Join(dir, filepath.Base(t.Path))
		if o := r.origin[t.Path]; o != "" {
			at[t.Path] = o
			continue
		}
		for _, f := range t.Files {
			name := filepath.Join(at[t.Path], f.Path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o755)); err != nil {
				return sandbox.Result{}, err
			}
		}
	}
	cmd := exec.Command("sh", "-c", "")
	cmd.Dir = dir
	if j.Workspace != nil {
		at[sandbox.WorkspaceDir] = j.Workspace.Host
		cmd.Dir = j.Workspace.Host
	}
	moved := func(s string) string {
		for from, to := range at {
			if s == from || strings.HasPrefix(s, from+"/") {
				return to + strings.TrimPrefix(s, from)
			}
		}
		return s
	}
	var words []string
	for _, a := range j.Argv {
		words = append(words, moved(a))
	}
	cmd.Args[2] = strings.Join(words, " ")
	cmd.Env = append(os.Environ(), "PYTHONPATH=.")
	for _, kv := range j.Env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			kv = "PATH=.:" + list
		}
		cmd.Env = append(cmd.Env, kv)
	}
	if j.Serve != nil {
		l, err := net.Listen("tcp", sandbox.ProxyAddr)
		if err != nil {
			return sandbox.Result{}, err
		}
		defer l.Close()
		go j.Serve(l)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, &errs, j.Stdin
	if j.Stdout != nil {
		cmd.Stdout = io.MultiWriter(&out, j.Stdout)
	}
	if r.slurp > 0 {
		b, err := io.ReadAll(io.LimitReader(j.Stdin, r.slurp))
		if err != nil {
			return sandbox.Result{}, err
		}
		cmd.Stdin = bytes.NewReader(b)
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return sandbox.Result{}, err
	}
	return sandbox.Result{Exit: cmd.ProcessState.ExitCode(), Stdout: out.Bytes(), Stderr: errs.Bytes(), Backend: "careless", Level: sandbox.L3}, nil
}
