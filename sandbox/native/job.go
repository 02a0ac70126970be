//go:build linux && (amd64 || arm64)

package native

import (
	"strconv"
	"strings"
	"time"

	"metier/sandbox"
	"metier/sandbox/native/internal/plan"
)

// address is how much address space a process may reserve beyond its memory limit: runtimes reserve
// gigabytes that they never use.
const address = 4 << 30

// page is the maximum size that tmpfs rounds up a file to.
const page = 64 << 10

// planOf converts a job to a plan for the first process. Limits must be filled in.
func (s *Sandbox) planOf(j sandbox.Job, w *work) *plan.Plan {
	l := j.Limits
	p := &plan.Plan{
		Host: "sandbox", Visible: s.visible,
		Devices: []plan.Device{{Path: "/dev/null", Number: 0x103}, {Path: "/dev/zero", Number: 0x105}, {Path: "/dev/full", Number: 0x107},
			{Path: "/dev/random", Number: 0x108}, {Path: "/dev/urandom", Number: 0x109}},
		Dirs: []string{"/dev", "/etc", "/proc", "/tmp", sandbox.SkillsDir},
		Links: []plan.Link{{Path: "/dev/fd", To: "/proc/self/fd"}, {Path: "/dev/stdin", To: "/proc/self/fd/0"}, {Path: "/dev/stdout", To: "/proc/self/fd/1"},
			{Path: "/dev/stderr", To: "/proc/self/fd/2"}, {Path: "/dev/shm", To: "/tmp"}},
		Files: etc(), Work: w.plan,
		Scratch: uint64(l.Scratch), ScratchMax: uint64(l.ScratchFiles),
		Limits: plan.Limits{CPU: uint64((l.CPU + time.Second - 1) / time.Second), FileSize: uint64(l.FileSize),
			Address: uint64(l.Memory) + address, Processes: uint64(l.Processes), OpenFiles: uint64(l.OpenFiles)},
		Filter: s.filter, Argv: j.Argv, Env: j.Env, Dir: j.Start(), Search: j.Search(),
	}
	if j.Exec != nil {
		p.Starts = s.starts
	}
	if j.Serve != nil {
		p.Port = proxyPort()
	}
	for _, t := range j.Trees {
		p.Dirs = append(p.Dirs, t.Path)
		for _, f := range t.Files {
			p.Files = append(p.Files, plan.File{Path: t.Path + "/" + f.Path, Exec: f.Exec, Data: f.Data})
		}
	}
	p.RootBytes, p.RootFiles = 1<<20, 256
	for _, f := range p.Files {
		p.RootBytes += uint64(len(f.Data)) + page
		p.RootFiles += uint64(strings.Count(f.Path, "/"))
	}
	return p
}

// etc returns the files that programs use to look up the user and the host.
func etc() []plan.File {
	id := strconv.Itoa(inside)
	return []plan.File{
		{Path: "/etc/passwd", Data: []byte("skill:x:" + id + ":" + id + "::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")},
		{Path: "/etc/group", Data: []byte("skill:x:" + id + ":\nnogroup:x:65534:\n")},
		{Path: "/etc/hosts", Data: []byte("127.0.0.1 localhost sandbox\n::1 localhost\n")},
		{Path: "/etc/nsswitch.conf", Data: []byte("passwd: files\ngroup: files\nhosts: files dns\n")},
	}
}

func proxyPort() uint64 {
	_, port, _ := strings.Cut(sandbox.ProxyAddr, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		panic("sandbox.ProxyAddr has no port") // a constant
	}
	return n
}
