package guest

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"syscall"
)

func init() {
	switch {
	case len(os.Args) == 2 && os.Args[0] == Check:
		os.Exit(0)
	case len(os.Args) != 1:
	case os.Args[0] == Hold:
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the owner closes it
		os.Exit(0)
	case os.Args[0] == Check:
		check()
	case os.Args[0] == First && os.Getpid() == 1:
		first()
	case os.Args[0] == Second && os.Getppid() == 1:
		second()
	}
}

// exitFailed is the exit code of either process after a failure. The answer has the details.
const exitFailed = 125

// say sends an answer. Errors are ignored: there is no other way to report them.
func say(a Answer) {
	if b, err := json.Marshal(a); err == nil {
		_, _ = syscall.Write(StatusFD, append(b, '\n')) // less than PIPE_BUF: atomic
	}
}

// fail ends the sandbox before the program starts.
func fail(step string, err error) {
	say(Answer{Step: step, Error: err.Error()})
	os.Exit(exitFailed)
}

// refuse is like fail, for an error in the job.
func refuse(step string, err error) {
	say(Answer{Step: step, Error: err.Error(), Job: true})
	os.Exit(exitFailed)
}

func must(step string, err error) {
	if err != nil {
		fail(step, err)
	}
}

// first is the first process: it builds the sandbox, starts the program, and waits for it. All
// other processes end with it.
func first() {
	p, err := Read(os.NewFile(PlanFD, "plan"))
	must("plan", err)
	syscall.Umask(0o022)
	build(p)
	for i := range p.Trees {
		p.Trees[i].Files = nil // already written to the sandbox
	}
	if p.Proxy != "" {
		must("network-proxy", listen(p.Proxy))
	} else {
		must("loopback", silence())
	}
	pid, err := launch()
	must("start", err)
	// The program waits for its plan, so the limits apply before it does anything.
	must("cgroup", os.WriteFile(join, []byte(strconv.Itoa(pid)), 0))
	must("cgroup", syscall.Mount("none", hide, "tmpfs", syscall.MS_RDONLY, "mode=000,size=4096"))
	// A process with the program's ID could be signalled, stopped, and limited by it.
	must("user", syscall.Setresuid(p.Owner, p.Owner, p.Owner))
	say(Answer{Ready: true})
	told()
	go func() {
		told()
		os.Exit(exitFailed)
	}()
	must("start", p.Write(os.NewFile(uintptr(gate[1]), "gate"), nil))
	_ = syscall.Close(gate[1]) // everything has been sent
	for {
		var ws syscall.WaitStatus
		var use syscall.Rusage
		got, err := syscall.Wait4(-1, &ws, 0, &use)
		switch {
		case err == syscall.EINTR || err == nil && got != pid: // an orphan
			continue
		case err != nil:
			fail("wait", err)
		}
		a := Answer{Ended: true, Exit: ws.ExitStatus(), CPU: use.Utime.Nano() + use.Stime.Nano(), RSS: use.Maxrss}
		if ws.Signaled() {
			a.Exit, a.Signal = -1, int(ws.Signal())
		}
		say(a)
		os.Exit(0)
	}
}

// told waits for the owner's byte or, after it, for the end of the pipe, which ends the sandbox.
func told() {
	var b [1]byte
	for {
		switch n, err := syscall.Read(AliveFD, b[:]); {
		case n == 1:
			return
		case err != syscall.EINTR:
			os.Exit(exitFailed)
		}
	}
}

// gate is the pipe that passes the plan to the second process.
var gate [2]int

// gateFD is its descriptor in the second process.
const gateFD = 3

// launch starts the second process.
func launch() (int, error) {
	if err := syscall.Pipe2(gate[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	for fd := PlanFD; fd <= MuxFD; fd++ {
		syscall.CloseOnExec(fd)
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Second}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{StdinFD, StdoutFD, StderrFD, uintptr(gate[0]), uintptr(gate[0]), uintptr(gate[0]), StatusFD},
	})
	_ = syscall.Close(gate[0])
	for fd := StdinFD; fd <= StderrFD; fd++ {
		_ = syscall.Close(fd) // they are the program's alone
	}
	return pid, err
}

// second drops all privileges and executes the program.
func second() {
	p, err := Read(os.NewFile(gateFD, "gate"))
	if err != nil {
		os.Exit(exitFailed) // the first process has reported why
	}
	confine(p)
	file, err := find(p)
	if err != nil {
		refuse("program", err)
	}
	err = syscall.Exec(file, p.Argv, p.Env)
	refuse("program", &os.PathError{Op: "exec", Path: p.Argv[0], Err: err})
}

// find looks up the program like execvp.
func find(p *Plan) (string, error) {
	name := p.Argv[0]
	for _, c := range name {
		if c == '/' {
			return name, nil
		}
	}
	for _, dir := range p.Search {
		file := dir + "/" + name
		var st syscall.Stat_t
		if syscall.Stat(file, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && syscall.Access(file, 1) == nil {
			return file, nil
		}
	}
	return "", &os.PathError{Op: "find", Path: name, Err: errors.New("no such program in PATH")}
}
