//go:build attacks

package gvisor_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/gvisor"
)

// workspace creates a folder that the program can write to, whichever user runs
// the test.
func workspace(t *testing.T, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, p); rel != "." {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheWorkspace(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	host := workspace(t, "a", ".git/config", ".metier/secret", "sub/kept/x", "hide.txt")
	j := sh(`pwd; cat a; echo new > b; echo changed > a
for c in "echo x > .git/config" "rm .git/config" "mv .git g" "mv sub s" "echo x > sub/kept/x" "echo x > .metier/y" "rm -r .metier"; do
  (eval "$c") 2>/dev/null && echo "BAD $c"; done
ls -A .metier; cat hide.txt; ls -A sub/kept; echo ok > .git/fine; cat .git/fine`)
	j.Workspace = &sandbox.Workspace{Host: host, Writable: true, ReadOnly: []string{".git/config", ".git/none", "sub/kept", "new/deep/er"}, Hidden: []string{".metier", "hide.txt"}}
	prints(t, s, j, "/workspace\na\nx\nok\n")
	want := []string{".git", ".git/config", ".git/fine", ".metier", ".metier/secret", "a", "b", "hide.txt", "sub", "sub/kept", "sub/kept/x"}
	if diff := cmp.Diff(want, names(t, host)); diff != "" {
		t.Error(diff)
	}
	for f, text := range map[string]string{"a": "changed\n", ".git/config": ".git/config\n"} {
		if b, err := os.ReadFile(filepath.Join(host, f)); err != nil || string(b) != text {
			t.Errorf("%s: %q %v", f, b, err)
		}
	}
	j = sh("cat a; (echo x > a) 2>/dev/null; mkdir d 2>/dev/null; ls -A; ls -A .metier")
	j.Workspace = &sandbox.Workspace{Host: host, ReadOnly: []string{"nowhere"}, Hidden: []string{".metier", "gone"}}
	prints(t, s, j, "changed\n.git\n.metier\na\nb\nhide.txt\nsub\n")
	if err := os.Symlink("a", filepath.Join(host, "link")); err != nil {
		t.Fatal(err)
	}
	j.Workspace = &sandbox.Workspace{Host: host, Writable: true, ReadOnly: []string{"link"}}
	if _, err := s.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("got error %v for a link that cannot be guarded", err)
	}
	j.Workspace = &sandbox.Workspace{Host: filepath.Join(host, "nowhere")}
	if _, err := s.Run(t.Context(), j); err == nil {
		t.Error("a missing workspace was accepted")
	}
}

func TestNothingOfTheHostIsThere(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	j := sh(`env | sort; ls /; ls /etc | sort; ls /home /root /var /run /mnt /workspace /sys/class/net 2>/dev/null; ls /proc/self/fd; hostname; id; for f in /usr/x /etc/passwd /x; do (echo x > $f) 2>/dev/null && echo "$f"; done; uname -v; cat /proc/1/cmdline | tr '\0' ' '; grep -E "^(Cap...|NoNewPrivs)" /proc/self/status | tr -d '\n\t'`)
	j.Env = []string{"PATH=/usr/bin:/bin", "A=b"}
	r := run(t, s, j)
	got := string(r.Stdout)
	for _, word := range []string{"HOME=", "home", "root\n", "var\n", "shadow"} {
		if strings.Contains(got, word) {
			t.Errorf("the program sees %q:\n%s", word, got)
		}
	}
	const none = "0000000000000000"
	if !strings.HasSuffix(got, "CapInh:"+none+"CapPrm:"+none+"CapEff:"+none+"CapBnd:"+none+"CapAmb:"+none+"NoNewPrivs:1") {
		t.Errorf("the program has privileges:\n%s", got)
	}
	if !strings.Contains(got, "A=b\n") || !strings.Contains(got, "\n0\n1\n2\n3\nsandbox\nuid=1000(skill) ") || strings.Contains(got, "/etc/passwd\n") {
		t.Error(got)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	for name, tt := range map[string]struct {
		text   string
		limits sandbox.Limits
		want   string
	}{
		"wall":      {"sleep 100", sandbox.Limits{Wall: 2 * time.Second}, sandbox.LimitWall},
		"no TERM":   {"trap '' TERM INT HUP; while :; do sleep 1; done", sandbox.Limits{Wall: 2 * time.Second}, sandbox.LimitWall},
		"cpu":       {"while :; do :; done", sandbox.Limits{CPU: time.Second}, sandbox.LimitCPU},
		"output":    {"yes", sandbox.Limits{Output: 1000}, sandbox.LimitOutput},
		"errors":    {"yes >&2", sandbox.Limits{Output: 1000}, sandbox.LimitOutput},
		"memory":    {"exec python3 -c 'x = b\"x\" * (300 << 20); input()'", sandbox.Limits{Memory: 100 << 20, Wall: 20 * time.Second}, sandbox.LimitMemory},
		"shm":       {"head -c 200000000 /dev/zero > /dev/shm/x; sleep 20", sandbox.Limits{Memory: 100 << 20, Scratch: 300 << 20, FileSize: 300 << 20, Wall: 20 * time.Second}, sandbox.LimitMemory},
		"file size": {"exec head -c 3000000 /dev/zero > /tmp/x", sandbox.Limits{FileSize: 1 << 20}, sandbox.LimitFileSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := sh(tt.text)
			j.Limits = tt.limits
			r := run(t, s, j)
			if r.Limit != tt.want || r.Exit != -1 || r.Signal != "" || len(r.Stdout) > 1000 || len(r.Stderr) > 1000 {
				t.Errorf("%q: exit %d, %s, limit %q, %s", tt.text, r.Exit, r.Signal, r.Limit, r.Stderr)
			}
			if tt.want == sandbox.LimitOutput && !r.StdoutTruncated && !r.StderrTruncated {
				t.Error("the cut output is not reported")
			}
		})
	}
	for name, tt := range map[string]struct {
		text, want string
		limits     sandbox.Limits
	}{
		"scratch":       {"head -c 3000000 /dev/zero > /tmp/x 2>/dev/null; wc -c < /tmp/x", "1048576\n", sandbox.Limits{Scratch: 1 << 20}},
		"scratch files": {"for i in $(seq 100); do touch /tmp/$i || break; done 2>/dev/null; ls /tmp | wc -l", "49\n", sandbox.Limits{ScratchFiles: 50}},
		"open files":    {"python3 -c 'l = []\ntry:\n while 1: l.append(open(\"/dev/null\"))\nexcept OSError as e: print(e.errno, len(l) < 32)'", "24 True\n", sandbox.Limits{OpenFiles: 32}},
		"processes":     {"python3 -c 'import os, time\nn = 0\ntry:\n while n < 100:\n  if os.fork() == 0: time.sleep(9)\n  n += 1\nexcept OSError as e: print(e.errno, n, flush=True)\nos._exit(0)'", "11 8\n", sandbox.Limits{Processes: 10}},
		"long output":   {"head -c 3000 /dev/zero | tr '\\0' x; echo done >&2", strings.Repeat("x", 1000) + "done\n", sandbox.Limits{Output: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := sh(tt.text)
			j.Limits = tt.limits
			prints(t, s, j, tt.want)
		})
	}
}

func TestAForkBombEnds(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	j := sh("f() { f | f & }; f; sleep 100")
	j.Limits.Wall = 3 * time.Second
	if r := run(t, s, j); r.Limit != sandbox.LimitWall {
		t.Errorf("%+v", r)
	}
}

func TestTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	j := sh("echo begun; exec sleep 100")
	j.Stdout = w
	go func() {
		_, _ = bufio.NewReader(r).ReadString('\n')
		cancel()
	}()
	res, err := s.Run(ctx, j)
	if err != nil || res.Limit != sandbox.LimitCancelled || string(res.Stdout) != "begun\n" {
		t.Errorf("%+v %v", res, err)
	}
	if _, err := s.Run(ctx, j); err == nil {
		t.Error("the job ran for a caller that had canceled")
	}
	other := open(t, gvisor.Options{})
	go func() {
		_, _ = bufio.NewReader(r).ReadString('\n')
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	if res, err := other.Run(t.Context(), j); err != nil || res.Limit != sandbox.LimitCancelled {
		t.Errorf("%+v %v", res, err)
	}
	if _, err := other.Run(t.Context(), j); err == nil {
		t.Error("the job ran after Close")
	}
}

// client fetches a URL through 127.0.0.1:3128, without a library.
const client = `exec 3<>/dev/tcp/127.0.0.1/3128 && printf '%s\n' "$1" >&3 && cat <&3`

func TestTheProxyIsTheOnlyNetwork(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	ended := make(chan struct{})
	j := sandbox.Job{Env: env, Argv: []string{"bash", "-c", `for i in 1 2 3; do ( ` + strings.ReplaceAll(client, "$1", "hello $i") + ` | sha256sum ) & done; wait
(exec 3<>/dev/tcp/127.0.0.1/` + fmt.Sprint(l.Addr().(*net.TCPAddr).Port) + `) 2>/dev/null && echo BAD; (exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo BAD; true`}}
	var mu sync.Mutex
	heard := map[string]bool{}
	j.Serve = func(l net.Listener) {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				line, _ := bufio.NewReader(c).ReadString('\n')
				mu.Lock()
				heard[line] = true
				mu.Unlock()
				_, _ = io.WriteString(c, big)
			}()
		}
	}
	sum := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(big)))
	prints(t, s, j, strings.Repeat(sum, 3))
	<-ended
	if diff := cmp.Diff(map[string]bool{"hello 1\n": true, "hello 2\n": true, "hello 3\n": true}, heard); diff != "" {
		t.Error(diff)
	}
	j.Serve = nil
	j.Argv[2] = `(exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null && echo BAD; true`
	prints(t, s, j, "")
	j.Argv = []string{"python3", "-c", `
import socket
for family, host in [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.1.2.3"), (socket.AF_INET6, "::1"), (socket.AF_INET, "1.1.1.1")]:
    l = socket.socket(family)
    try:
        l.bind((host, 4040)); l.listen(); socket.create_connection((host, 4040), 2); print("BAD", host)
    except OSError: pass
`}
	prints(t, s, j, "")
	j.Argv = []string{"bash", "-c", ""}
	// After the proxy ends, the program reaches nothing.
	j.Serve = func(l net.Listener) { _ = l.Close() }
	j.Argv[2] = `(` + strings.ReplaceAll(client, "$1", "x") + `) 2>/dev/null; true`
	prints(t, s, j, "")
}

// Counts descriptors, goroutines, and children before and after.
func TestNothingIsLeft(t *testing.T) {
	s := open(t, gvisor.Options{})
	j := sh("sleep 100 & setsid sleep 100 & echo x")
	j.Serve = func(l net.Listener) { _, _ = l.Accept() }
	run(t, s, j)
	count := func() (int, int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds), runtime.NumGoroutine()
	}
	fds, routines := count()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { run(t, s, j) })
	}
	all.Wait()
	if after, r := count(); after > fds || r > routines {
		buf := make([]byte, 1<<20)
		t.Errorf("%d descriptors and %d goroutines, now %d and %d\n%s", fds, routines, after, r, buf[:runtime.Stack(buf, true)])
	}
	if now, err := os.ReadFile("/proc/self/mountinfo"); err != nil || !bytes.Equal(mounts, now) {
		t.Errorf("mounts changed: %v\n%s", err, cmp.Diff(string(mounts), string(now)))
	}
}

// The test starts itself again as a process that runs a job, prints where it is, and waits until
// it is killed.
func TestTheOwnerIsKilled(t *testing.T) {
	if dir := os.Getenv("METIER_TEST_OWNER"); dir != "" {
		s := open(t, gvisor.Options{Temp: dir})
		j := sh("echo begun; sleep 100")
		j.Stdout = os.Stdout
		_, _ = s.Run(t.Context(), j)
		return
	}
	path, err := runsc()
	if err != nil {
		testenv.Skip(t, "needs gVisor's runsc, run make runsc: "+err.Error())
	}
	temp := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTheOwnerIsKilled$")
	cmd.Env = append(os.Environ(), "METIER_TEST_OWNER="+temp, "METIER_RUNSC="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("%q %v", line, err)
	}
	folders, err := filepath.Glob(filepath.Join(temp, "metier-gvisor-*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	text, err := os.ReadFile(filepath.Join(folders[0], "pid"))
	if err != nil {
		t.Fatal(err)
	}
	// The file has the process id of the sandbox. A descriptor of its /proc
	// folder shows when it is gone.
	proc, err := os.Open("/proc/" + strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proc.Close() }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !testenv.Killed(cmd.ProcessState) {
		t.Errorf("the owner was not killed: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		if _, err := proc.Readdirnames(1); errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
			break
		}
		if _, err := proc.Seek(0, io.SeekStart); err != nil || time.Now().After(end) {
			t.Fatalf("the sandbox outlived its owner: %v", err)
		}
	}
	// The next sandbox removes what was left, once it is old enough.
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(folders[0], before, before); err != nil {
		t.Fatal(err)
	}
	run(t, open(t, gvisor.Options{Temp: temp}), sh("true"))
	if _, err := os.Stat(folders[0]); !os.IsNotExist(err) {
		t.Errorf("%s still exists: %v", folders[0], err)
	}
}

// Runs the tests of this package again as an ordinary user.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "needs root, to run as another user; the other tests do not need it")
	}
	path, err := runsc()
	if err != nil {
		testenv.Skip(t, "needs gVisor's runsc, run make runsc: "+err.Error())
	}
	dir, err := os.MkdirTemp("", "metier-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, from := range map[string]string{"runsc": path, "tests": os.Args[0]} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		testenv.WriteProgram(t, filepath.Join(dir, name), b)
	}
	const uid = 65534
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700), os.Chown(filepath.Join(dir, "tmp"), uid, uid)); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.skip=^(TestAsAnOrdinaryUser|TestNothingIsLeft|TestWithstandsAttacks)$", "-test.timeout=10m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tests"), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "TMPDIR=" + filepath.Join(dir, "tmp"), "METIER_RUNSC=" + filepath.Join(dir, "runsc"), testenv.NoSkip + "=" + os.Getenv(testenv.NoSkip)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}
