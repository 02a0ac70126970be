//go:build linux && (amd64 || arm64)

package native_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/native"
)

func open(t testing.TB) *native.Sandbox {
	t.Helper()
	s, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}

func shell(script string) sandbox.Job {
	return sandbox.Job{Argv: []string{"sh", "-c", script}, Env: env, MinLevel: sandbox.L2}
}

func run(t *testing.T, s *native.Sandbox, j sandbox.Job) sandbox.Result {
	t.Helper()
	r, err := s.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says runs a script that has to succeed, and returns what it printed.
func says(t *testing.T, s *native.Sandbox, j sandbox.Job) string {
	t.Helper()
	r := run(t, s, j)
	if r.Exit != 0 {
		t.Fatalf("exit %d, signal %s, limit %s: %s%s", r.Exit, r.Signal, r.Limit, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

func TestTheProbeAnswersByDoing(t *testing.T) {
	t.Parallel()
	r := open(t).Probe(t.Context())
	if !r.Available || r.Level != sandbox.L2 || r.Backend != "native" || !slices.Contains(r.Visible, "/usr") || !slices.Contains(r.Notes, native.NoteMemory) {
		t.Errorf("%+v", r)
	}
}

func TestTheRootIsMadeFromNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	j := shell("ls /; ls /dev; id -u; id -g; uname -n; pwd; umask; ls -A /skills /tmp | tr '\\n' ' '")
	got := says(t, s, j)
	if !strings.HasSuffix(got, "fd\nfull\nnull\nrandom\nshm\nstderr\nstdin\nstdout\nurandom\nzero\n1000\n1000\nsandbox\n/tmp\n0022\n/skills:  /tmp: ") {
		t.Errorf("%s", got)
	}
	for _, never := range []string{"home", "root", "var", "run", "sys", "mnt", "opt", "work"} {
		if slices.Contains(strings.Split(got, "\n"), never) {
			t.Errorf("the host's /%s is visible:\n%s", never, got)
		}
	}
	// A host descriptor would bypass the sandbox. Every process that this
	// process starts inherits this one.
	leak, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	if got := says(t, s, shell("i=0; while [ $i -lt 256 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i+1)); done; true")); got != "0\n1\n2\n" {
		t.Errorf("descriptors: %q", got)
	}
	status := says(t, s, shell("cat /proc/self/status"))
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want+"\n") {
			t.Errorf("missing %q in\n%s", want, status)
		}
	}
	if got := says(t, s, shell("ls -d /proc/[0-9]* | grep -c -x /proc/1; true")); got != "0\n" {
		t.Errorf("the first process is visible: %s", got)
	}
}

func TestTreesAreTheBytesThatWereGiven(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	j := shell("./run.sh && ls -l . lib | tr -s ' ' | cut -d' ' -f1,9 && wc -c < lib/big && { echo x > lib/x; chmod 777 run.sh; rm run.sh; } 2>&1 | grep -c 'Read-only'")
	j.Dir = "/skills/a"
	j.Trees = []sandbox.Tree{
		{Path: "/skills/a", Files: []sandbox.File{{Path: "run.sh", Exec: true, Data: []byte("#!/bin/sh\n. ./lib/x.sh\n. ../b/y.sh\n")},
			{Path: "lib/x.sh", Data: []byte("echo x\n")}, {Path: "lib/big", Data: big}}},
		{Path: "/skills/b", Files: []sandbox.File{{Path: "y.sh", Data: []byte("echo y\n")}}},
		{Path: "/skills/empty"},
	}
	want := "x\ny\n.:\ntotal\ndrwxr-xr-x lib\n-r-xr-xr-x run.sh\n\nlib:\ntotal\n-r--r--r-- big\n-r--r--r-- x.sh\n16777216\n3\n"
	got := says(t, open(t), j)
	if got = strings.ReplaceAll(got, "total 16388", "total"); strings.Contains(got, "total 4") {
		got = strings.ReplaceAll(got, "total 4", "total")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEndsAreTold(t *testing.T) {
	t.Parallel()
	s := open(t)
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
		{"signal", "kill -SEGV $$", sandbox.Limits{}, end{Exit: -1, Signal: "SIGSEGV"}},
		{"signal without a name", "kill -40 $$", sandbox.Limits{}, end{Exit: -1, Signal: "signal 40"}},
		{"killed by itself", "kill -9 $$", sandbox.Limits{}, end{Exit: -1, Signal: "SIGKILL"}},
		{"wall", "trap '' TERM INT; echo a; sleep 100", sandbox.Limits{Wall: 300 * time.Millisecond}, end{Exit: -1, Limit: "wall", Out: "a\n"}},
		{"wall, in a session of its own", "setsid sleep 100 & setsid sh -c 'trap \"\" TERM; sleep 100' & wait", sandbox.Limits{Wall: 300 * time.Millisecond}, end{Exit: -1, Limit: "wall"}},
		{"stopped", "kill -STOP $$", sandbox.Limits{Wall: 300 * time.Millisecond}, end{Exit: -1, Limit: "wall"}},
		{"cpu of one", "while :; do :; done", sandbox.Limits{CPU: time.Second}, end{Exit: -1, Limit: "cpu"}},
		{"cpu of all", "for i in 1 2 3 4; do sh -c 'while :; do :; done' & done; wait", sandbox.Limits{CPU: time.Second}, end{Exit: -1, Limit: "cpu"}},
		{"file", "head -c 200k /dev/zero > /tmp/x", sandbox.Limits{FileSize: 100 << 10}, end{Exit: 153}},
		{"file, the program itself", "exec head -c 200k /dev/zero > /tmp/x", sandbox.Limits{FileSize: 100 << 10}, end{Exit: -1, Limit: "file-size"}},
		{"some too much output", "printf 123456", sandbox.Limits{Output: 4}, end{Out: "1234", OutCut: true}},
		{"exactly enough output", "printf 1234; printf 4321 >&2", sandbox.Limits{Output: 4}, end{Out: "1234", Errs: "4321"}},
		{"far too much output", "yes >&2", sandbox.Limits{Output: 4}, end{Exit: -1, Limit: "output", Errs: "y\ny\n", ErrsCut: true}},
		{"who holds the output does not hold up the result", "sleep 100 & echo a", sandbox.Limits{}, end{Out: "a\n"}},
		{"orphans are reaped", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do (sh -c : &) ; sleep 0.03; done; echo ok", sandbox.Limits{Processes: 12}, end{Out: "ok\n"}},
		{"signals to the first process", "for s in TERM INT HUP QUIT USR1 SEGV STOP KILL; do kill -$s 1; done; sleep 0.1; cat /proc/self/status | grep -E 'Sig(Blk|Ign)' | cut -f2", sandbox.Limits{}, end{Out: "0000000000000000\n0000000000000000\n"}},
		{"a wall shorter than a launch", "sleep 60", sandbox.Limits{Wall: time.Millisecond}, end{Exit: -1, Limit: sandbox.LimitWall}},
		{"scratch is full", "head -c 2M /dev/zero > /tmp/x", sandbox.Limits{Scratch: 1 << 20}, end{Exit: 1, Errs: "head: error writing 'standard output': No space left on device\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := shell(tt.script)
			j.Limits = tt.limits
			r := run(t, s, j)
			if tt.name == "file" {
				r.Stderr = nil // error messages of sh vary
			}
			got := end{r.Exit, r.Signal, r.Limit, string(r.Stdout), string(r.Stderr), r.StdoutTruncated, r.StderrTruncated}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if r.Wall <= 0 || r.Backend != "native" || r.Level != sandbox.L2 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestMemoryOfAllIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t)
	const grow = "$s = 'x' x (40 << 20); $s .= 'y'; sleep 100"
	for name, script := range map[string]string{
		"one":  "perl -e '$s = q(x) x (400 << 20); sleep 100'",
		"many": `for i in 1 2 3 4; do perl -e '` + strings.ReplaceAll(grow, "'x'", "q(x)") + `' & done; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedTool(t, "perl", "perl-base")
			j := shell(strings.ReplaceAll(script, ".= 'y'", ".= q(y)"))
			j.Limits = sandbox.Limits{Memory: 100 << 20, Wall: 30 * time.Second}
			if r := run(t, s, j); r.Limit != sandbox.LimitMemory || r.Exit != -1 {
				t.Errorf("%+v: %s", r, r.Stderr)
			}
		})
	}
}

func TestOutputComesAsItIsWritten(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	in, feed := io.Pipe()
	j := shell("echo ready; read line; echo \"got $line\" >&2")
	j.Stdin, j.Stdout = in, w
	go func() {
		b := make([]byte, 6)
		if _, err := io.ReadFull(r, b); err == nil && string(b) == "ready\n" {
			_, _ = io.WriteString(feed, "it\n") // otherwise the job reaches its limit
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	var errs bytes.Buffer
	j.Stderr = &errs
	got := run(t, open(t), j) // the input is never closed
	if got.Exit != 0 || string(got.Stdout) != "ready\n" || errs.String() != "got it\n" || string(got.Stderr) != "got it\n" {
		t.Errorf("%+v, %q", got, errs.String())
	}
}

// endless is input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestInputIsReadOrNot(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, tt := range map[string]struct {
		script, want string
		stdin        io.Reader
	}{
		"none":         {"cat; echo end", "end\n", nil},
		"some":         {"cat", "abc", strings.NewReader("abc")},
		"not read":     {"echo end", "end\n", endless{}},
		"read in part": {"head -c 3 | wc -c", "3\n", endless{}},
		"empty":        {"wc -c", "0\n", strings.NewReader("")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := shell(tt.script)
			j.Stdin = tt.stdin
			if got := says(t, s, j); got != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestProgramsAreFound(t *testing.T) {
	t.Parallel()
	s := open(t)
	tree := []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "sh", Exec: true, Data: []byte("#!/bin/sh\necho planted\n")}, {Path: "no", Data: []byte("x")}}}}
	j := sandbox.Job{Argv: []string{"sh", "-c", "echo real"}, Env: []string{"PATH=.::/skills/none:/usr/bin"}, Trees: tree, Dir: "/skills/a"}
	if got := says(t, s, j); got != "real\n" {
		t.Errorf("%q", got)
	}
	j.Argv = []string{"./sh"}
	if got := says(t, s, j); got != "planted\n" {
		t.Errorf("%q", got)
	}
	for _, tt := range []struct {
		argv, dir string
		want      error
	}{
		{"no-such-program", "", fs.ErrNotExist}, {"/skills/a/none", "", fs.ErrNotExist}, {"/skills/a/no", "", fs.ErrPermission}, {"sh", "/none", fs.ErrNotExist},
		{"/proc/1/exe", "", fs.ErrNotExist}, {"/proc/self/exe", "", fs.ErrPermission}, // the program that embeds the sandbox
	} {
		j.Argv, j.Dir = []string{tt.argv}, tt.dir
		_, err := s.Run(t.Context(), j)
		if _, ok := errors.AsType[*sandbox.Unavailable](err); ok || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), strings.TrimSpace(tt.dir+" ")) {
			t.Errorf("%s in %q: %v", tt.argv, tt.dir, err)
		}
	}
}

func TestTheOneWayOut(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "perl", "perl-base")
	s := open(t)
	const dial = `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => shift) or do { print "$@\n"; exit }; print $s "hi\n"; print <$s>' `
	j := shell(dial + "127.0.0.1:3128; " + dial + "127.0.0.1:3129; " + dial + "192.0.2.1:80")
	ended := false
	j.Serve = func(ln net.Listener) {
		for {
			c, err := ln.Accept()
			if err != nil {
				ended = true
				return
			}
			b := make([]byte, 3)
			if _, err := io.ReadFull(c, b); err == nil {
				_, _ = c.Write([]byte("you said " + string(b))) // the program's output shows a failure
			}
			_ = c.Close()
		}
	}
	got := says(t, s, j)
	if !ended {
		t.Error("Serve was left running")
	}
	lines := strings.Split(got, "\n")
	if len(lines) < 3 || lines[0] != "you said hi" || !strings.Contains(lines[1], "refused") || !strings.Contains(lines[2], "unreachable") {
		t.Errorf("%s", got)
	}
	j.Serve = nil
	if got := says(t, s, j); strings.Count(got, "unreachable") != 3 {
		t.Errorf("without a proxy: %s", got)
	}
}

func TestEndingEarly(t *testing.T) {
	t.Parallel()
	s, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, shell("echo a")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled before the start: %v", err)
	}
	if _, err := s.Run(t.Context(), sandbox.Job{Argv: []string{"true"}, Env: env, MinLevel: sandbox.L3}); !strings.Contains(err.Error(), "L3") {
		t.Errorf("got error %v for an unknown level", err)
	}
	// Canceled at any time: either the program did not start, or its end is
	// reported.
	for i := range 40 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*500*time.Microsecond, errors.New("enough"))
		r, err := s.Run(ctx, shell("sleep 100"))
		switch {
		case err != nil && strings.Contains(err.Error(), "did not start: enough"):
		case err == nil && r.Limit == sandbox.LimitCancelled && r.Exit == -1:
		default:
			t.Errorf("%v, %+v", err, r)
		}
		cancel()
	}
	started := make(chan struct{})
	result := make(chan sandbox.Result, 1)
	go func() {
		j := shell("echo a; sleep 100")
		j.Stdout = writerFunc(func(p []byte) (int, error) { close(started); return len(p), nil })
		r, err := s.Run(t.Context(), j)
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if r := <-result; r.Limit != sandbox.LimitCancelled || string(r.Stdout) != "a\n" {
		t.Errorf("closed: %+v", r)
	}
	if _, err := s.Run(t.Context(), shell("true")); err == nil {
		t.Error("the job ran after Close")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The kernel counts some things for the user who started metier, in whichever namespace they are.
func TestRun_LimitsWhatItTakesFromTheUser(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	r := run(t, open(t), shell(`python3 -c '
import ctypes, resource
for name in "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO": print(resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1])
c, n = ctypes.CDLL(None, use_errno=True), 0
while c.inotify_init1(0) >= 0: n += 1
print(n, resource.getrlimit(resource.RLIMIT_CORE), c.syscall({"x86_64": 206}.get(__import__("os").uname().machine, 0), 1, 0), ctypes.get_errno())'`))
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Fatal(err)
	}
	all, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("1024\n0\n0\n0\n%d (1, 1) -1 38\n", max(2, min(32, all/64)))
	if diff := cmp.Diff(want, string(r.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s%s", diff, r.Stderr)
	}
}

// Calls that keep pages of memory in pipes and sockets do not work, and programs copy instead.
func TestRun_KeepsNoPagesInPipes(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	r := run(t, open(t), shell(`cd /tmp && echo text > a && cat a | cat && python3 -c '
import ctypes, os, shutil, socket
a, b = os.pipe()
with open("a") as f:
    for call in lambda: os.sendfile(b, f.fileno(), 0, 1), lambda: os.splice(f.fileno(), b, 1):
        try: print("kept", call())
        except OSError as e: print(e.strerror)
shutil.copyfile("a", "b"); print(open("b").read(), end="")
x, y = socket.socketpair()
with open("a", "rb") as f: print(x.sendfile(f), y.recv(9))
try: socket.socket().setsockopt(socket.SOL_SOCKET, 60, 1)
except OSError as e: print(e.strerror)'`))
	const want = "text\nInvalid argument\nInvalid argument\ntext\n5 b'text\\n'\nOperation not permitted\n"
	if diff := cmp.Diff(want, string(r.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s%s", diff, r.Stderr)
	}
}

// A program cannot keep the process that ends its job from running, which has the same user.
func TestRun_SchedulesOnlyItself(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	r := run(t, open(t), shell(`nice -n 5 true && python3 -c '
import os
print(os.sched_setaffinity(0, os.sched_getaffinity(0)), os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)), os.setpriority(os.PRIO_PROCESS, 0, 6))
for call in (lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), lambda: os.sched_setaffinity(1, {0}), lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.setpriority(os.PRIO_PGRP, 0, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19)):
    try: print("allowed", call())
    except PermissionError as e: print(e.strerror)'`))
	want := "None None None\n" + strings.Repeat("Operation not permitted\n", 5)
	if diff := cmp.Diff(want, string(r.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s%s", diff, r.Stderr)
	}
}

// The kernel starts the host's program for core dumps for any limit but 1, and loads modules for rare
// protocols.
func TestRun_StartsNothingOfTheHost(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	r := run(t, open(t), shell(`ulimit -c 0; python3 -c '
import os, resource, socket
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))
print(resource.getrlimit(resource.RLIMIT_CORE))
for family, kind, protocol in (2, 1, 0), (2, 2, 17), (10, 1, 6), (2, 1, 262), (2, 1, 132), (2, 2, 136), (10, 5, 132), (2, 6, 33):
    try: socket.socket(family, kind, protocol).close(); print("open")
    except OSError as e: print(e.errno)
try: socket.socket().setsockopt(6, 31, b"tls")
except OSError as e: print(e.errno)'`))
	const want = "(1, 1)\nopen\nopen\nopen\n93\n93\n93\n93\n93\n1\n"
	if diff := cmp.Diff(want, string(r.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s%s", diff, r.Stderr)
	}
}
