//go:build linux && (amd64 || arm64)

package quarantine_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/quarantine"
)

// killed is a sandbox whose process is killed while a program runs.
type killed struct{ sandbox.Sandbox }

func (killed) Run(context.Context, sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{}, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

const childEnv = "QUARANTINE_CHILD"

func TestMain(m *testing.M) {
	if v := os.Getenv(childEnv); v != "" {
		dir, journal, _ := strings.Cut(v, ":")
		j := sandbox.Job{Argv: []string{"true"}, Workspace: &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{".agents/skills", ".git", ".claude/skills", "pr\xffj/.agents/skills"}, Repositories: []string{"own", "own\xff"}}}
		_, err := quarantine.New(killed{}, quarantine.NewJournal(journal)).Run(context.Background(), j)
		panic(err)
	}
	os.Exit(m.Run())
}

// kill runs a process that guards a workspace, creates folders in it, and is
// killed at the given moment.
func kill(t *testing.T, dir, journal string, at time.Time, create string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+dir+":"+journal)
	out, err := c.CombinedOutput()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("not killed: %v\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(dir, create), 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(journal, "job-*.json"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %q, %v", entries, err)
	}
	if err := os.Chtimes(entries[0], at, at); err != nil {
		t.Fatal(err)
	}
}

func TestSweep_MovesAsideWhatKilledRunsLeft(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now(), ".agents/skills/planted")
	for _, p := range []string{filepath.Join(dir, ".agents"), dir} { // the program removed the permissions
		if err := os.Chmod(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	j := quarantine.NewJournal(journal)
	moved, err := j.Sweep(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []quarantine.Moved{{Workspace: dir, Quarantined: sandbox.Quarantined{Path: "."}, Restored: true}, {Workspace: dir, Quarantined: sandbox.Quarantined{Path: ".agents/skills", To: ".agents/skills.quarantined"}}}
	if diff := cmp.Diff(want, moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{".agents": "/", ".agents/skills.quarantined": "/", ".agents/skills.quarantined/planted": "/"}, list(t, dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("the workspace has the permissions %v, %v", info.Mode(), err)
	}
	if moved, err := j.Sweep(t.Context(), dir); len(moved) > 0 || err != nil {
		t.Errorf("a second time: %+v, %v", moved, err)
	}
	if diff := cmp.Diff(map[string]string{"lock": ""}, list(t, journal)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
}

// Files created later belong to the user.
func TestSweep_KeepsWhatCameLater(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now().Add(-time.Minute), ".git/hooks")
	moved, err := quarantine.NewJournal(journal).Sweep(t.Context(), dir)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]quarantine.Moved{{Workspace: dir, Quarantined: sandbox.Quarantined{Path: ".git"}, Kept: true}}, moved); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{".git": "/", ".git/hooks": "/"}, list(t, dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// The workspace can be moved before the next command.
func TestSweep_FindsMovedWorkspaces(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now(), ".git/hooks")
	to := filepath.Join(filepath.Dir(dir), "moved")
	if err := os.Rename(dir, to); err != nil {
		t.Fatal(err)
	}
	j := quarantine.NewJournal(journal)
	if moved, err := j.Sweep(t.Context(), t.TempDir()); len(moved) > 0 || err != nil { // another workspace
		t.Errorf("moved %+v, %v", moved, err)
	}
	moved, err := j.Sweep(t.Context(), to)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]quarantine.Moved{{Workspace: to, Quarantined: sandbox.Quarantined{Path: ".git", To: ".git.quarantined"}}}, moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"lock": ""}, list(t, journal)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
}

// A workspace that was made again at the same path is another one, even if it gets the inode of the
// first. What the user creates in it stays.
func TestSweep_KeepsWhatIsInANewWorkspace(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now(), "a")
	inode := func() uint64 {
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	first := inode()
	for range 100 { // most file systems use the inode again at once
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if inode() == first {
			break
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if moved, err := quarantine.NewJournal(journal).Sweep(t.Context(), dir); len(moved) > 0 || err != nil {
		t.Errorf("moved %+v, %v", moved, err)
	}
	if diff := cmp.Diff(map[string]string{".git": "/"}, list(t, dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// The entries of earlier versions identify the workspace without its birth time.
func TestSweep_ReadsEntriesWithoutBirthTime(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now(), ".git/hooks")
	entries, err := filepath.Glob(filepath.Join(journal, "job-*.json"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries %q, %v", entries, err)
	}
	b, err := os.ReadFile(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	old := regexp.MustCompile(`("id":"\d+:\d+):\d+\.\d+"`).ReplaceAll(b, []byte(`$1"`))
	if bytes.Equal(old, b) {
		t.Fatalf("the entry has no birth time: %s", b)
	}
	if err := os.WriteFile(entries[0], old, 0o600); err != nil {
		t.Fatal(err)
	}
	moved, err := quarantine.NewJournal(journal).Sweep(t.Context(), dir)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]quarantine.Moved{{Workspace: dir, Quarantined: sandbox.Quarantined{Path: ".git", To: ".git.quarantined"}}}, moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
}

func TestSweep_LeavesRunningProgramsAlone(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), quarantine.NewJournal(t.TempDir())
	p := start(t, open(t, journal), dir, "mkdir .git; sleep 100", ".git")
	if moved, err := journal.Sweep(t.Context(), dir); len(moved) > 0 || err != nil {
		t.Errorf("moved %+v, %v", moved, err)
	}
	if res := p.goOn(); res.Limit != sandbox.LimitProtectedPath {
		t.Errorf("limit %q after a sweep", res.Limit)
	}
}

func TestClaim_LetsThisUserCreate(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), quarantine.NewJournal(t.TempDir())
	p := start(t, open(t, journal), dir, "ls .metier", ".metier", ".git")
	runs := filepath.Join(dir, ".metier/runs")
	if moved, err := journal.Claim(t.Context(), runs); len(moved) > 0 || err != nil {
		t.Fatalf("moved %+v, %v", moved, err)
	}
	if err := os.MkdirAll(runs, 0o700); err != nil {
		t.Fatal(err)
	}
	if res := p.goOn(); res.Limit != "" || string(res.Stdout) != "ready\nruns\n" {
		t.Errorf("limit %q, moved %+v, output %q", res.Limit, res.Quarantined, res.Stdout)
	}
	if _, err := os.Lstat(runs); err != nil {
		t.Error(err)
	}
}

// started is a program that waits after it printed that it is ready.
type started struct {
	t    *testing.T
	stay *os.File
	done chan sandbox.Result
}

func start(t *testing.T, s sandbox.Sandbox, dir, script string, protected ...string) started {
	t.Helper()
	return begin(t, s, shell(dir, "echo ready; read line; "+script, protected...))
}

// begin starts a job that prints ready and then reads its standard input.
func begin(t *testing.T, s sandbox.Sandbox, j sandbox.Job) started {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	j.Stdin = r
	ready, p := make(chan struct{}, 1), started{t, w, make(chan sandbox.Result, 1)}
	j.Stdout = writerFunc(func(b []byte) (int, error) {
		if strings.HasPrefix(string(b), "ready") {
			ready <- struct{}{}
		}
		return len(b), nil
	})
	go func() {
		res, err := s.Run(t.Context(), j)
		if err != nil {
			t.Error(err)
		}
		p.done <- res
	}()
	select {
	case <-ready:
	case res := <-p.done:
		t.Fatalf("it ended: %+v", res)
	}
	return p
}

func (p started) goOn() sandbox.Result {
	p.t.Helper()
	if err := p.stay.Close(); err != nil {
		p.t.Error(err)
	}
	return <-p.done
}

// Root and ordinary users get the same guarantees. done is a sandbox whose
// program has already ended.
type done struct{ sandbox.Sandbox }

func (done) Run(context.Context, sandbox.Job) (sandbox.Result, error) { return sandbox.Result{}, nil }

// Guards come and go while other processes claim and sweep.
func TestJournal_SharedByProcesses(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, nil), t.TempDir()
	job := sandbox.Job{Argv: []string{"true"}, Workspace: &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{".agents/skills"}}}
	n := testenv.Count(60, 1000)
	var all sync.WaitGroup
	for name, do := range map[string]func(*quarantine.Journal) error{
		"run": func(j *quarantine.Journal) error {
			_, err := quarantine.New(done{}, j).Run(t.Context(), job)
			return err
		},
		"claim": func(j *quarantine.Journal) error {
			_, err := j.Claim(t.Context(), filepath.Join(dir, ".agents/skills"))
			return err
		},
		"sweep": func(j *quarantine.Journal) error { _, err := j.Sweep(t.Context(), dir); return err },
	} {
		all.Go(func() {
			j := quarantine.NewJournal(journal)
			for i := range n {
				if err := do(j); err != nil {
					t.Errorf("%s %d: %v", name, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if left, err := filepath.Glob(filepath.Join(journal, "job-*")); err != nil || len(left) > 0 {
		t.Errorf("entries %q are left (%v)", left, err)
	}
}

func TestAllAsAnOrdinaryUser(t *testing.T) {
	if !testenv.OrdinaryUser(t) {
		return
	}
	for name, test := range map[string]func(*testing.T){
		"moves": TestRun_MovesAsideWhatAppears, "links": TestRun_RestoresLinks, "nothing": TestRun_LeavesNothing, "permissions": TestRun_RestoresPermissions,
		"sweep": TestSweep_MovesAsideWhatKilledRunsLeft, "later": TestSweep_KeepsWhatCameLater, "running": TestSweep_LeavesRunningProgramsAlone, "claim": TestClaim_LetsThisUserCreate,
	} {
		t.Run(name, test)
	}
}

func TestSweep_MovesAsideUnsafeRepositories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   time.Time // when metier was killed
		want []quarantine.Moved
	}{
		"of a killed run": {time.Now(), []quarantine.Moved{{Quarantined: sandbox.Quarantined{Path: "lib/.git", To: "lib/.git.quarantined", Unsafe: "it has the hook pre-commit"}}}},
		"made later":      {time.Now().Add(-time.Hour), []quarantine.Moved{{Quarantined: sandbox.Quarantined{Path: "lib/.git", Unsafe: "it has the hook pre-commit"}, Kept: true}}},
	} {
		dir, journal := workspace(t, map[string]string{"own/.git/hooks/pre-commit": ""}), t.TempDir()
		kill(t, dir, journal, c.at, "lib/.git/hooks")
		if err := os.WriteFile(filepath.Join(dir, "lib", ".git", "hooks", "pre-commit"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		moved, err := quarantine.NewJournal(journal).Sweep(t.Context(), dir)
		for i := range moved {
			moved[i].Workspace = ""
		}
		if diff := cmp.Diff(c.want, moved); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// A program can close a folder to its owner, so that it cannot be listed.
func TestSweep_ReportsAnIncompleteSearch(t *testing.T) {
	if !testenv.OrdinaryUser(t) {
		return
	}
	dir, journal := workspace(t, nil), t.TempDir()
	kill(t, dir, journal, time.Now(), "closed/lib")
	closed := filepath.Join(dir, "closed")
	if err := os.Chmod(closed, 0o311); err != nil {
		t.Fatal(err)
	}
	j := quarantine.NewJournal(journal)
	moved, err := j.Sweep(t.Context(), dir)
	if diff := cmp.Diff([]quarantine.Moved{{Workspace: dir, Unsearched: true}}, moved); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if moved, err := j.Sweep(t.Context(), dir); len(moved) > 0 || err != nil {
		t.Errorf("a second time: %+v, %v", moved, err)
	}
	if err := os.Chmod(closed, 0o755); err != nil { // so that it can be removed
		t.Fatal(err)
	}
}

// Paths in the journal can have any bytes.
func TestSweep_MovesAsidePathsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	dir, journal := workspace(t, map[string]string{"own\xff/.git/hooks/pre-commit": ""}), t.TempDir()
	kill(t, dir, journal, time.Now(), "pr\xffj/.agents/skills/planted")
	moved, err := quarantine.NewJournal(journal).Sweep(t.Context(), dir)
	want := []quarantine.Moved{{Workspace: dir, Quarantined: sandbox.Quarantined{Path: "pr\xffj/.agents/skills", To: "pr\xffj/.agents/skills.quarantined"}}}
	if diff := cmp.Diff(want, moved); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
