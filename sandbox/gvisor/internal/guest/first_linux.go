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
	case os.Args[0] == Check:
		check()
	case os.Args[0] == First && os.Getpid() == 1:
		first()
	case os.Args[0] == Second && os.Getppid() == 1:
		second()
	}
}

// exits of the two when they cannot go on; what happened is in the answer.
const exitFailed = 125

// say sends an answer. If it cannot be sent there is nobody to tell.
func say(a Answer) {
	if b, err := json.Marshal(a); err == nil {
		_, _ = syscall.Write(StatusFD, append(b, '\n')) // less than PIPE_BUF: whole
	}
}

// fail ends the sandbox before the program began.
func fail(step string, err error) {
	say(Answer{Step: step, Error: err.Error()})
	os.Exit(exitFailed)
}

// refuse is fail for a fault of the job.
func refuse(step string, err error) {
	say(Answer{Step: step, Error: err.Error(), Job: true})
	os.Exit(exitFailed)
}

func must(step string, err error) {
	if err != nil {
		fail(step, err)
	}
}

// first is the first process: it builds, starts the program, waits, and ends
// everything with itself.
func first() {
	p, err := Read(os.NewFile(PlanFD, "plan"))
	must("plan", err)
	syscall.Umask(0o022)
	build(p)
	for i := range p.Trees {
		p.Trees[i].Files = nil // their bytes are in the sandbox now
	}
	if p.Proxy != "" {
		must("network-proxy", listen(p.Proxy))
	} else {
		must("loopback", silence())
	}
	pid, err := launch()
	must("start", err)
	// It waits for its plan, so that it is limited before it does anything.
	must("cgroup", os.WriteFile(join, []byte(strconv.Itoa(pid)), 0))
	must("cgroup", syscall.Mount("none", hide, "tmpfs", syscall.MS_RDONLY, "mode=000,size=4096"))
	say(Answer{Ready: true})
	told()
	go func() {
		told()
		os.Exit(exitFailed)
	}()
	must("start", p.Write(os.NewFile(uintptr(gate[1]), "gate"), nil))
	_ = syscall.Close(gate[1]) // the other side has all of it
	for {
		var ws syscall.WaitStatus
		var use syscall.Rusage
		got, err := syscall.Wait4(-1, &ws, 0, &use)
		switch {
		case err == syscall.EINTR || err == nil && got != pid: // somebody's orphan
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

// told waits for the owner: for its byte, or, as it sends one only, for its end,
// which ends everything.
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

// gate is the pipe by which the second process is told the plan.
var gate [2]int

// gateFD is where the second process finds it.
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

// second becomes the program: it gives up all it can, and executes it.
func second() {
	p, err := Read(os.NewFile(gateFD, "gate"))
	if err != nil {
		os.Exit(exitFailed) // the first process has said why
	}
	confine(p)
	file, err := find(p)
	if err != nil {
		refuse("program", err)
	}
	err = syscall.Exec(file, p.Argv, p.Env)
	refuse("program", &os.PathError{Op: "exec", Path: p.Argv[0], Err: err})
}

// find looks for the program as execvp does.
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
