package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/internal/testenv"
)

// The environment variables that give a cell's process its role.
const (
	envSpec  = "METIER_SANDBOXTEST_SPEC"
	envStage = "METIER_SANDBOXTEST_STAGE" // launch, build, judge or drive
	reportFD = 3
)

// spec describes what one cell does.
type spec struct {
	Way       int
	Seat      string
	Control   bool
	Namespace bool // in its own user namespace
	AsUser    bool // the judge is not root in the cell
	Attack    string
	Test      string            // the test binary, where every user can run it
	Run       string            // its -test.run
	TTY       int               // the master side of the judge's terminal, or 0
	Programs  map[string]string // by their path in the cell
	Token     string            // a secret laid out before the judge starts
}

// report is what a cell found.
type report struct {
	Harm   []string // what the attack did
	Broken []string // what the port promises and did not do
	Log    []string
	output string
}

func (r *report) show(t *testing.T) {
	if testing.Verbose() || t.Failed() {
		for _, l := range r.Log {
			t.Log(l)
		}
	}
	if t.Failed() && r.output != "" {
		t.Logf("the cell printed:\n%s", r.output)
	}
}

// suite is what the cells of one test share.
type suite struct {
	seats        []string
	test, attack string
	pattern      string
	programs     map[string]string
	patience     time.Duration // factor for a way's time limit
}

// newSuite builds the attacks and copies them, with this test binary, to where
// every user can run them.
func newSuite(t *testing.T, o Options) *suite {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "metier-attacks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &suite{seats: seats(), test: filepath.Join(dir, "test"), attack: filepath.Join(dir, "attack")}
	s.programs, s.patience = map[string]string{}, 1
	if o.ownKernel() {
		s.patience = 6
	}
	copies := map[string]string{s.test: "/proc/self/exe"}
	for name, from := range o.Programs {
		to := filepath.Join(dir, "program-"+name)
		copies[to], s.programs[cellDir+"/"+name] = from, to
	}
	for to, from := range copies {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(to, b, 0o755), os.Chmod(to, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", s.attack, "./sandbox/sandboxtest/attack")
	build.Dir = testenv.Module(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the attacks: %v\n%s", err, out)
	}
	for _, f := range []string{s.test, s.attack} {
		if err := os.Chmod(f, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.pattern = testenv.Pattern(t)
	return s
}

// run runs one way in its own cell.
func (s *suite) run(t *testing.T, sp spec) *report {
	t.Helper()
	sp.Attack, sp.Test, sp.Run, sp.Programs = s.attack, s.test, s.pattern, s.programs
	limit := ways()[sp.Way].seconds
	if limit == 0 {
		limit = 60
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.patience*time.Duration(limit)*time.Second)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := sp.command(ctx)
	if sp.Seat == userSeat && os.Geteuid() == 0 {
		cmd = sp.launcher(ctx)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.ExtraFiles = []*os.File{w}
	cmd.WaitDelay = 5 * time.Second
	runtime.LockOSThread() // the cell dies with the thread that created it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		t.Fatalf("start a cell: %v", err)
	}
	_ = w.Close()
	answer, _ := io.ReadAll(r)
	werr := cmd.Wait()
	rep := &report{output: out.String()}
	if err := json.Unmarshal(answer, rep); err != nil {
		t.Fatalf("the cell ended without a report: %v, %v\n%s", werr, context.Cause(ctx), out.String())
	}
	return rep
}

func (sp *spec) env(stage string) []string {
	b, err := json.Marshal(sp)
	if err != nil {
		panic(err)
	}
	env := []string{envSpec + "=" + string(b), envStage + "=" + stage, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/home/victim", "TMPDIR=/tmp"}
	if os.Getenv(testenv.NoSkip) != "" {
		env = append(env, testenv.NoSkip+"="+os.Getenv(testenv.NoSkip))
	}
	return env
}

func (sp *spec) args() []string {
	return []string{sp.Test, "-test.run=" + sp.Run, "-test.timeout=10m", "-test.v"}
}

// launcher starts the cell from a process of an ordinary user.
func (sp *spec) launcher(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, sp.Test, sp.args()[1:]...)
	cmd.Env, cmd.Dir = sp.env("launch"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// command is the first process of a cell, in new namespaces.
func (sp *spec) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, sp.Test, sp.args()[1:]...)
	cmd.Env, cmd.Dir = sp.env("build"), "/"
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP}
	cmd.SysProcAttr = a
	if !sp.Namespace {
		return cmd
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	inside := 0
	if sp.AsUser {
		inside = 1000
		a.AmbientCaps = capabilities()
	}
	if os.Geteuid() != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: 1}}
		return cmd
	}
	// Root of the cage must map to an unused user of the host: root there owns
	// what the whole machine shares.
	const unused = 2_000_000_000
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: unused, Size: 65536}}
	a.UidMappings, a.GidMappings, a.GidMappingsEnableSetgroups = ids, ids, true
	a.Credential = &syscall.Credential{Uid: uint32(inside), Gid: uint32(inside)}
	return cmd
}

func capabilities() (all []uintptr) {
	last := 40
	if b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap"); err == nil {
		last, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	for c := range last + 1 {
		all = append(all, uintptr(c))
	}
	return all
}

// launch is the ordinary user's process between the test and a cell.
func launch(sp *spec) error {
	runtime.LockOSThread()
	cmd := sp.command(context.Background())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(reportFD, "report")}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run a cell as an ordinary user: %w", err)
	}
	return nil
}
