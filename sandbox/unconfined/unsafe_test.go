//go:build unix

package unconfined_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/sandbox"
	"metier/sandbox/unconfined"
)

func sh(script string) sandbox.Job {
	return sandbox.Job{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func host(t *testing.T) (*unconfined.Host, string) {
	t.Helper()
	temp := t.TempDir()
	h := unconfined.New(&unconfined.Options{Temp: temp})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return h, temp
}

func TestEndsAreTold(t *testing.T) {
	t.Parallel()
	type end struct {
		Exit                     int
		Signal, Limit, Out, Errs string
		OutCut, ErrsCut          bool
	}
	tests := []struct {
		name, script string
		limits       sandbox.Limits
		want         end
	}{
		{"success", "echo a; echo b >&2", sandbox.Limits{}, end{Out: "a\n", Errs: "b\n"}},
		{"failure", "exit 7", sandbox.Limits{}, end{Exit: 7}},
		{"a signal", "kill -SEGV $$", sandbox.Limits{}, end{Exit: -1, Signal: "SIGSEGV"}},
		{"wall time, with TERM ignored", "trap '' TERM; echo a; sleep 60 & wait", sandbox.Limits{Wall: 300 * time.Millisecond}, end{Exit: -1, Limit: "wall", Out: "a\n"}},
		{"exactly as much output as allowed", "printf 1234", sandbox.Limits{Output: 4}, end{Out: "1234"}},
		{"more, by a program that ends", "printf 12345", sandbox.Limits{Output: 4}, end{Out: "1234", OutCut: true}},
		{"more, by a program that does not", "while :; do echo 1234; done >&2", sandbox.Limits{Output: 4}, end{Exit: -1, Limit: "output", Errs: "1234", ErrsCut: true}},
		{"a stopped program", "kill -STOP $$", sandbox.Limits{Wall: 300 * time.Millisecond}, end{Exit: -1, Limit: "wall"}},
		{"a child that holds the output", "sleep 60 & echo a", sandbox.Limits{}, end{Out: "a\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, _ := host(t)
			j := sh(tt.script)
			j.Limits = tt.limits
			r, err := h.Run(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			got := end{r.Exit, r.Signal, r.Limit, string(r.Stdout), string(r.Stderr), r.StdoutTruncated, r.StderrTruncated}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if r.Backend != "unsafe-host" || r.Level != sandbox.L0 || r.Wall <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestGetsWhatTheJobNames(t *testing.T) {
	t.Parallel()
	h, _ := host(t)
	ws := t.TempDir()
	var live bytes.Buffer
	r, err := h.Run(t.Context(), sandbox.Job{
		Argv:      []string{"/skills/a/run", "/skills/a/data", "/workspace/out", "/tmp/x", "/skillsets", "/tmp/../etc", "--at=/tmp"},
		Env:       []string{"HOME=/tmp", "PATH=/usr/bin:/bin"},
		Stdin:     strings.NewReader("input"),
		Trees:     []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "run", Exec: true, Data: []byte("#!/bin/sh\ncat \"$1\"; cat >\"$2\"; cd \"${3%/x}\" && [ \"$PWD\" = \"$HOME\" ]; echo $? $4 $5 $6; env | cut -d= -f1 | grep -v -e PWD -e _ | sort | tr '\\n' ' '")}, {Path: "data", Data: []byte("bytes\n")}}}},
		Workspace: &sandbox.Workspace{Host: ws, Writable: true},
		Stdout:    &live,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "bytes\n0 /skillsets /tmp/../etc --at=/tmp\nHOME PATH "
	if string(r.Stdout) != want || live.String() != want || len(r.Stderr) > 0 {
		t.Errorf("got %q and %q, %q", r.Stdout, live.String(), r.Stderr)
	}
	if b, err := os.ReadFile(filepath.Join(ws, "out")); err != nil || string(b) != "input" {
		t.Errorf("the workspace holds %q, %v", b, err)
	}
}

func TestRefusesWhatItCannotGive(t *testing.T) {
	t.Parallel()
	h, _ := host(t)
	tests := map[string]struct {
		edit      func(*sandbox.Job)
		primitive string
	}{
		"a level":             {func(j *sandbox.Job) { j.MinLevel = sandbox.L1 }, "isolation"},
		"a proxy":             {func(j *sandbox.Job) { j.Serve = func(net.Listener) {} }, "network"},
		"nonsense":            {func(j *sandbox.Job) { j.Env = []string{"x"} }, ""},
		"an absent program":   {func(j *sandbox.Job) { j.Argv = []string{"/no/such"} }, ""},
		"a name without PATH": {func(j *sandbox.Job) { j.Argv, j.Env = []string{"sh"}, nil }, ""},
		"a name in PATH's dot": {func(j *sandbox.Job) {
			j.Argv, j.Env = []string{"planted"}, []string{"PATH=.::/usr/bin"}
			j.Dir = "/skills/a"
			j.Trees = []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "planted", Exec: true, Data: []byte("#!/bin/sh\n")}}}}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := sh(":")
			tt.edit(&j)
			_, err := h.Run(t.Context(), j)
			var u *sandbox.Unavailable
			if err == nil || errors.As(err, &u) != (tt.primitive != "") || u != nil && u.Missing.Primitive != tt.primitive {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestGivingUpAndClosingEndIt(t *testing.T) {
	t.Parallel()
	ends := map[string]func(h *unconfined.Host, cancel func()){
		"cancel": func(_ *unconfined.Host, cancel func()) { cancel() },
		"close":  func(h *unconfined.Host, _ func()) { go func() { _ = h.Close() }() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := host(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, in := io.Pipe()
			j := sh("sleep 60 & echo $!; wait")
			j.Stdout = in
			var r sandbox.Result
			var err error
			done := make(chan struct{})
			go func() { defer close(done); r, err = h.Run(ctx, j) }()
			b := make([]byte, 32)
			n, _ := out.Read(b)
			end(h, cancel)
			<-done
			if err != nil || r.Limit != sandbox.LimitCancelled || r.Exit != -1 || n == 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	h, _ := host(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Run(ctx, sh(":")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.Run(t.Context(), sh(":")); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

// A reader that never returns does not block the result.
func TestInputNobodyWrites(t *testing.T) {
	t.Parallel()
	h, _ := host(t)
	r, w := io.Pipe()
	defer w.Close()
	j := sh("exit 3")
	j.Stdin = r
	got, err := h.Run(t.Context(), j)
	if err != nil || got.Exit != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSignalNumbersHaveNames(t *testing.T) {
	t.Parallel()
	h, _ := host(t)
	r, err := h.Run(t.Context(), sh("kill -KILL $$"))
	if err != nil || r.Signal != "SIGKILL" || r.Limit != "" {
		t.Errorf("%+v, %v (%v)", r, err, syscall.SIGKILL)
	}
	if p := h.Probe(t.Context()); !p.Available || p.Level != sandbox.L0 || p.Backend != "unsafe-host" || len(p.Missing) == 0 {
		t.Errorf("%+v", p)
	}
}
