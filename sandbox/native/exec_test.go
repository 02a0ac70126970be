//go:build linux && (amd64 || arm64)

package native_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/native"
)

// programs are the programs that a job asked to start. It refuses one, and those that are unknown.
type programs struct {
	all    []sandbox.Exec
	refuse string
}

func (p *programs) exec(x sandbox.Exec) (passes bool, err error) {
	p.all = append(p.all, x)
	if p.refuse != "" && x.Lines == nil {
		return false, errors.New("unknown")
	}
	for i, l := range slices.Concat(x.Lines, x.Interpreters) {
		base := path.Base(l[0])
		if base == p.refuse {
			return false, errors.New("refused")
		}
		told := slices.Contains([]string{"env", "xargs", "find", "timeout", "setsid"}, base) || base == "sh" && len(l) > 1 && l[1] == "-c"
		passes = passes || told && i < len(x.Lines) && len(x.Interpreters) == 0
	}
	return passes, nil
}

// last returns the last program that was to start by a name.
func (p *programs) last(t *testing.T, name string) sandbox.Exec {
	t.Helper()
	for _, x := range slices.Backward(p.all) {
		if slices.ContainsFunc(x.Lines, func(l []string) bool { return path.Base(l[0]) == name }) {
			return x
		}
	}
	t.Fatalf("%s was not seen: %v", name, p.all)
	return sandbox.Exec{}
}

// bash returns a job that runs a text in a workspace with some files.
func bash(t *testing.T, text string) sandbox.Job {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"Makefile": "all:\n\t@touch mark\n", "script": "#!/bin/sh\ntouch mark\n", "named": "#!/usr/bin/touch\n",
		"through": "#!/usr/bin/env ./named\n", "plain": "touch mark\n"} {
		testenv.WriteProgram(t, filepath.Join(dir, name), []byte(content))
	}
	return sandbox.Job{Argv: []string{"bash", "--noprofile", "--norc", "-c", text}, Env: env, MinLevel: sandbox.L2,
		Workspace: &sandbox.Workspace{Host: dir, Writable: true}, Limits: sandbox.Limits{Memory: 1 << 30}}
}

// A program that may not start does not start, in whichever way a process asks for it, and the job
// ends.
func TestExec_RefusesProgramsHoweverTheyStart(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	testenv.NeedTool(t, "make", "make")
	s := open(t)
	python := func(code string) string { return "python3 -c '" + strings.ReplaceAll(code, "'", `'\''`) + "'" }
	for _, text := range []string{
		"touch mark",
		// Texts that a parser does not understand as bash does.
		`echo hi {a['$(touch mark)']}>f`, `>&-touch mark`, `find script -exec echo {} $(printf +) -exec touch mark \;`, `[ x -a "$(echo -v)" 'a[$(touch mark)]' ]`,
		// Other processes.
		"make", "env ./script", "sh -c 'sh -c \"touch mark\"'", "echo mark | xargs touch", "(sleep 0.05; touch mark) & exec sleep 5",
		"./plain", ". ./plain", "setsid -f touch mark; sleep 5", "for i in 1 2 3 4 5 6 7 8; do touch mark & done; wait; sleep 5",
		// Other names.
		"ln -s /usr/bin/touch x; ./x mark", "ln -s /usr/bin x; ln -s x/touch y; cd /; /workspace/y /workspace/mark", "exec -a other touch mark", "PATH=/nowhere:/usr/bin:/bin env touch mark",
		"./named", "./through", "cp named x; ./x", "ln -s /usr/bin/touch x; printf '#!/workspace/x\\n' > y; chmod +x y; ./y",
		"exec 3</usr/bin/touch; /dev/fd/3 mark", "exec 3</usr/bin/touch; /proc/self/fd/3 mark", "exec 3</usr/bin/touch; ln -s /proc/self/fd/3 x; ./x mark",
		"exec 3</usr/bin/touch; ln -s /proc/self/fd d; d/3 mark", "exec 3</usr/bin; cd /tmp; /proc/self/fd/3/touch /workspace/mark",
		"ln -s /usr/bin/touch x; mkdir d; cd d; rmdir ../d; ../x /workspace/mark", "mkdir -p /tmp/a/b; cd /tmp/a/b; ln -s /usr/bin/touch x; chmod 0 ..; ./x /workspace/mark",
		"ln -s /usr/bin/touch x; ln -s ../../../../workspace/x y; exec 3<.; cd /; /dev/fd/3/y /workspace/mark", "ln -s /proc/self/fd/9/touch x; exec 9</usr/bin; ./x mark",
		// Other calls.
		python("import subprocess; subprocess.run(['touch','mark'])"), python("import os; os.waitpid(os.posix_spawnp('touch',['touch','mark'],os.environ),0)"),
		python("import os; os.execve(os.open('/usr/bin/touch',os.O_RDONLY),['other','mark'],os.environ)"),
		python("import os,threading,time; threading.Thread(target=os.execv,args=('/usr/bin/touch',['other','mark'])).start(); time.sleep(5)"),
		python("import ctypes,os; b=ctypes.create_string_buffer; v=(ctypes.c_char_p*3)(b'other',b'mark',None); d=os.open('/usr',os.O_PATH); ctypes.CDLL(None).syscall({'x86_64':322}.get(os.uname().machine,281),d,b'bin/touch',v,None,0)"),
	} {
		p := &programs{refuse: "touch"}
		j := bash(t, text)
		j.Exec = p.exec
		r := run(t, s, j)
		if r.Limit != sandbox.LimitProgram || r.Exit != -1 || r.Signal != "" {
			t.Errorf("%s: exit %d, signal %q, limit %q\n%s%s\n%v", text, r.Exit, r.Signal, r.Limit, r.Stdout, r.Stderr, p.all)
		}
		if _, err := os.Stat(filepath.Join(j.Workspace.Host, "mark")); err == nil {
			t.Errorf("%s: the program ran", text)
		}
	}
}

// A statically linked program needs no loader that a library could check.
func TestExec_RefusesStaticPrograms(t *testing.T) {
	t.Parallel()
	p := &programs{refuse: "ldconfig"}
	j := bash(t, "PATH=$PATH:/usr/sbin:/sbin; ldconfig -p > mark")
	j.Exec = p.exec
	if r := run(t, open(t), j); r.Limit != sandbox.LimitProgram && r.Exit != 127 { // 127: there is none here
		t.Errorf("exit %d, limit %q: %s", r.Exit, r.Limit, r.Stderr)
	}
}

// Nothing that a process does after a program was refused takes effect.
func TestExec_EndsTheJobBeforeItCanReact(t *testing.T) {
	t.Parallel()
	j := bash(t, "touch mark || echo reacted; echo after")
	j.Exec = (&programs{refuse: "touch"}).exec
	if r := run(t, open(t), j); len(r.Stdout) > 0 || len(r.Stderr) > 0 {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}

// A program that a job's own program starts, or one that starts the programs in its arguments, is direct.
func TestExec_ReportsWhoDecides(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "make", "make")
	s := open(t)
	for text, want := range map[string]bool{
		"id": true, "$(echo id)": true, "(id)": true, "{ id; } | cat": true, "exec id": true, "env id": true, "timeout 5 env id": true, "sh -c id": true, "sh -c 'true; id'": true,
		"echo | xargs id": true, "find plain -exec id ';'": true, "(sleep 0.1; id) & exec sleep 1": true, "sh -c '(sleep 0.1; id) & exec make -s wait'": true,
		"(sleep 0.1; env id) & exec make -s wait": true, "shopt -s execfail; exec /etc/passwd; exec id": true, "(setsid sh -c 'sleep 0.2; id' &) ; sleep 0.5": true,
		"awk 'BEGIN{system(\"id\")}'": false, "make -s id": false, "sh plainer": false, "./plainer": false, "make -s sub": false, "perl -e 'exec q(id)'": false, "perl -e '$0=q(bash); system(q(id;true))'": false,
	} {
		p := &programs{}
		j := bash(t, text)
		for name, content := range map[string]string{"Makefile": "wait:\n\tsleep 1\nid:\n\tid\nsub:\n\tenv sh -c 'true; id'\n", "plainer": "#!/bin/sh\ntrue; id\n"} {
			testenv.WriteProgram(t, filepath.Join(j.Workspace.Host, name), []byte(content))
		}
		j.Exec = p.exec
		run(t, s, j)
		if got := p.last(t, "id").Direct; got != want {
			t.Errorf("%s: direct is %v\n%v", text, got, p.all)
		}
	}
}

func TestExec_ReportsCommandLines(t *testing.T) {
	t.Parallel()
	s := open(t)
	for text, want := range map[string]string{
		"/bin/true a 'b c'": `["/bin/true" "a" "b c"] ["/usr/bin/true" "a" "b c"]`,
		"ln -s /usr/bin/true a; ln -s a b; exec -a c ./b": `["c"] ["/workspace/b"] ["/workspace/a"] ["/usr/bin/true"]`,
		"./script x":               `["./script" "x"] ["/workspace/script" "x"] ["/bin/sh" "./script" "x"]`,
		"exec -a '' /usr/bin/true": `["" ] ["/usr/bin/true"]`,
		"mkdir d; cd d; ../script": `["../script"] ["/workspace/script"] ["/bin/sh" "../script"]`,
		// The kernel ends a line that is longer than 255 bytes.
		"printf '#!/usr/bin/true %240s' commitX > x; chmod +x x; ./x": `["./x"] ["/workspace/x"] ["/usr/bin/true" "commit" "./x"]`,
		"printf '#! /usr/bin/env  a b\\n' > x; chmod +x x; ./x y":     `["./x" "y"] ["/workspace/x" "y"] ["/usr/bin/env" "a b" "./x" "y"]`,
	} {
		var got string
		j := bash(t, text)
		j.Exec = func(x sandbox.Exec) (bool, error) {
			if lines := strings.Trim(fmt.Sprintf("%q", slices.Concat(x.Lines, x.Interpreters)), "[]"); strings.HasPrefix("["+lines+"]", strings.ReplaceAll(want, `"" ]`, `""]`)) {
				got = want
			} else if got == "" {
				got += "[" + lines + "]\n"
			}
			return false, nil
		}
		run(t, s, j)
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestExec_CutsLongArguments(t *testing.T) {
	t.Parallel()
	s := open(t)
	for text, want := range map[string][2]int{"true $(seq 1 5000)": {sandbox.MaxExecArgs, 1}, "true $(seq 1 4095)": {sandbox.MaxExecArgs, 0}, "x=$(printf %0100000d 1); true $x $x $x": {3, 1}} {
		p := &programs{}
		j := bash(t, "PATH=/usr/bin; enable -n true; "+text)
		j.Exec = p.exec
		if r := run(t, s, j); r.Exit != 0 {
			t.Fatalf("%s: %d %s", text, r.Exit, r.Stderr)
		}
		x := p.last(t, "true")
		if len(x.Lines[0]) != want[0] || x.Cut != (want[1] == 1) {
			t.Errorf("%s: %d words, cut %v", text, len(x.Lines[0]), x.Cut)
		}
	}
}

// A program whose arguments cannot be read is reported as unknown.
func TestExec_ReportsUnknownPrograms(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	p := &programs{}
	j := bash(t, `python3 -c 'import ctypes; ctypes.CDLL(None).execve(b"/usr/bin/touch", ctypes.c_void_p(8), None)'`)
	j.Exec = p.exec
	if r := run(t, open(t), j); r.Exit != 0 {
		t.Errorf("exit %d: %s", r.Exit, r.Stderr)
	}
	if x := p.all[len(p.all)-1]; x.Lines != nil {
		t.Errorf("%q", x.Lines)
	}
}

// A process cannot replace the listener, and does not inherit it.
func TestExec_KeepsTheListener(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	s := open(t)
	j := bash(t, `for i in {0..255}; do [ -e /proc/$$/fd/$i ] && echo $i; done
python3 -c 'import ctypes,os
class P(ctypes.Structure): _fields_=[("n",ctypes.c_ushort),("f",ctypes.c_void_p)]
code=ctypes.create_string_buffer(b"\x06\0\0\0\0\0\xff\x7f"); p=P(1,ctypes.addressof(code))
libc=ctypes.CDLL(None,use_errno=True)
n={"x86_64":317}.get(os.uname().machine,277)
for flags in 8,0: print(libc.syscall(n,1,flags,ctypes.byref(p)),ctypes.get_errno())'`)
	j.Exec = (&programs{}).exec
	if got := says(t, s, j); got != "0\n1\n2\n-1 16\n0 16\n" {
		t.Errorf("%q", got)
	}
}

func TestExec_AnswersManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := &programs{}
	j := bash(t, "for i in $(seq 20); do (for j in $(seq 10); do /bin/true; done) & done; wait")
	j.Exec = p.exec
	if r := run(t, s, j); r.Exit != 0 || len(p.all) != 221 {
		t.Errorf("exit %d, %d programs: %s", r.Exit, len(p.all), r.Stderr)
	}
}

// The job's own program is not asked about, and errors of a job without a program stay the same.
func TestExec_IsNotAskedAboutTheJobsProgram(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := &programs{refuse: "true"}
	r := run(t, s, sandbox.Job{Argv: []string{"true"}, Env: env, Exec: p.exec})
	if r.Exit != 0 || len(p.all) > 0 {
		t.Errorf("%+v %v", r, p.all)
	}
	j := bash(t, "")
	j.Argv, j.Exec = []string{"/workspace/Makefile"}, p.exec
	if r, err := s.Run(t.Context(), j); err == nil {
		t.Errorf("a file that is no program: %+v", r)
	}
}

func TestExec_EndsWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	j := bash(t, "while :; do /bin/true; done")
	n := 0
	j.Exec = func(sandbox.Exec) (bool, error) {
		if n++; n == 20 {
			cancel()
		}
		return false, nil
	}
	if r, err := open(t).Run(ctx, j); err != nil || r.Limit != sandbox.LimitCancelled {
		t.Errorf("%+v, %v", r, err)
	}
}

// If the process that checks programs is killed, what waits for an answer does not start.
func TestExec_StartsNothingWithoutItsParent(t *testing.T) {
	t.Parallel()
	mark := "86401." + strconv.Itoa(int(rand.Text()[0])) + strconv.Itoa(os.Getpid())
	cmd := actor(t.Context(), t, "ask:sleep "+mark+" & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; exec touch mark")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "asked\n" {
		t.Fatal(line, err)
	}
	var other []int // a program of the same job
	for len(other) == 0 {
		other = named(t, mark)
	}
	fd, err := unix.PidfdOpen(other[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	}
	if err != nil || n != 1 {
		t.Errorf("the job continues: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "mark")); err == nil {
		t.Error("the program ran")
	}
}

// ask runs a script and never answers when it is asked about touch.
func ask(script string) error {
	s, err := native.New(nil)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	_, err = s.Run(context.Background(), sandbox.Job{Argv: []string{"sh", "-c", script}, Env: env, Workspace: &sandbox.Workspace{Host: dir, Writable: true},
		Exec: func(x sandbox.Exec) (bool, error) {
			if x.Lines[0][0] != "touch" {
				return false, nil
			}
			fmt.Println("asked")
			select {}
		}})
	return err
}

// On a host where programs cannot be watched, jobs with Exec do not start, and others do.
func TestExec_StartsNothingUnwatched(t *testing.T) {
	t.Parallel()
	for name, role := range map[string]string{"another listener": "unwatched:", "no memory": fmt.Sprintf("unwatched:%d=%d", unix.SYS_PROCESS_VM_READV, unix.EPERM)} {
		out, err := actor(t.Context(), t, role).Output()
		if want := "notes [memory-best-effort programs-unwatched], missing level and seccomp-notify, runs true, watched seccomp-notify\n"; err != nil || string(out) != want {
			t.Errorf("%s: %v, %s, want %s", name, err, out, want)
		}
	}
}

// unwatched runs jobs where a system call is denied, or where the process has a listener already.
func unwatched(call string) error {
	nr, errno, denies := strings.Cut(call, "=")
	take := func() error { return deny(nr, errno) }
	if !denies {
		take = func() error {
			allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
			return install(allow, unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
		}
	}
	s, err := native.New(nil)
	if err == nil {
		err = take()
	}
	if err != nil {
		return err
	}
	report := s.Probe(context.Background())
	var missing []string
	for _, m := range report.Missing {
		missing = append(missing, m.Primitive)
	}
	j := sandbox.Job{Argv: []string{"true"}, Env: env}
	r, err := s.Run(context.Background(), j)
	j.Exec = (&programs{}).exec
	_, watchedErr := s.Run(context.Background(), j)
	fmt.Printf("notes %v, missing %s, runs %v, watched %s\n", report.Notes, strings.Join(missing, " and "), err == nil && r.Exit == 0, sandbox.MissingOf(watchedErr).Primitive)
	return s.Close()
}

// An ELF file names the program that the kernel starts. The kernel looks at fewer fields than others
// do, so the file can claim to be of another class.
func TestExec_ReportsLoaders(t *testing.T) {
	t.Parallel()
	s := open(t)
	const name = "/workspace/link\x00"
	program := make([]byte, 64+56, 64+56+len(name))
	copy(program, "\x7fELF\x01\x02\x01")
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	for at, v := range map[int]uint16{16: 3, 18: machine, 52: 64, 54: 56, 56: 1} {
		binary.LittleEndian.PutUint16(program[at:], v)
	}
	binary.LittleEndian.PutUint64(program[32:], 64)
	binary.LittleEndian.PutUint32(program[64:], 3)
	for at, v := range map[int]uint64{8: 64 + 56, 32: uint64(len(name))} {
		binary.LittleEndian.PutUint64(program[64+at:], v)
	}
	j := bash(t, "ln -s /usr/bin/true link; exec ./program")
	testenv.WriteProgram(t, filepath.Join(j.Workspace.Host, "program"), append(program, name...))
	var got []string
	j.Exec = func(x sandbox.Exec) (bool, error) {
		got = x.Loader
		return false, nil
	}
	run(t, s, j)
	if diff := cmp.Diff([]string{"/workspace/link", "/usr/bin/true"}, got); diff != "" {
		t.Error(diff)
	}
}
