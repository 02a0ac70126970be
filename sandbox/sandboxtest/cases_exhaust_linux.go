package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"metier/sandbox"
)

// Cases 109 to 113: exhausting shared resources. Each attack stops by itself at
// a bound that a cage can bear.
func exhaustWays() []way {
	memory := "memory"
	list := []way{
		{number: 109, name: "processes", by: "as many as possible", do: (*cell).forks},
		{number: 109, name: "processes", by: "doubling", do: (*cell).bomb},
		{number: 110, name: memory, by: "of one process", do: func(c *cell) { c.eats("mem", "480") }},
		{number: 110, name: memory, by: "of many processes", do: func(c *cell) { c.eats("mem-many", "8", "60") }},
		{number: 110, name: memory, by: "of files without a name", do: func(c *cell) { c.eats("mem-memfd", "8", "60") }},
		{number: 110, name: memory, by: "of shared segments", do: (*cell).shared},
		{number: 111, name: "disk", by: "bytes", do: (*cell).fills},
		{number: 111, name: "disk", by: "one file", do: (*cell).bigFile},
		{number: 111, name: "disk", by: "inodes", do: (*cell).inodes},
		{number: 112, name: "descriptors", do: (*cell).openFiles},
	}
	for _, where := range []string{"stdout", "stderr", "both"} {
		list = append(list, way{number: 113, name: "a flood of output", by: where, careless: true, do: func(c *cell) { c.floods(where) }})
	}
	return list
}

// most calls look every few milliseconds while f runs, and returns the largest
// number seen.
func most(look func() int, f func()) (top int) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			top = max(top, look())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	f()
	close(stop)
	done.Wait()
	return top
}

// A backend may use a few processes of its own.
const maxProcesses, ownProcesses = 16, 4

func (c *cell) forks() {
	j := c.limited(c.attack("forks", "100"), sandbox.Limits{Processes: maxProcesses})
	top := most(func() int { return len(c.jobs()) }, func() { c.hold(j) })
	c.processLimit(top)
}

func (c *cell) processLimit(top int) {
	c.log("peak: %d processes", top)
	own := ownProcesses
	if c.ownKernel() {
		own += 4 * maxProcesses // it runs each program in additional processes
	}
	if top > maxProcesses+own {
		c.harm("%d processes at once, limit %d", top, maxProcesses)
	}
	if left := c.gone(c.patience()); len(left) > 0 {
		c.harm("still running: %v", left)
	}
}

func (c *cell) bomb() {
	j := c.limited(c.attack("bomb", "7"), sandbox.Limits{Processes: maxProcesses, Wall: 1500 * time.Millisecond})
	top := most(func() int { return len(c.jobs()) }, func() { c.run(j) })
	c.processLimit(top)
}

const maxMemory = 128 << 20

// eats runs an attack that takes several times the memory it may use, and
// counts from outside what its processes hold at once.
func (c *cell) eats(args ...string) {
	j := c.limited(c.attack(args...), sandbox.Limits{Memory: maxMemory, FileSize: 64 << 20, Scratch: 64 << 20})
	held := false
	j.Stdin = nil
	var top int64
	r, err := c.held(j, func(pids []process) {
		held = true
		top = memoryOf(pids)
	})
	c.log("holds %v with %d MiB, limit %q", held, top>>20, r.Limit)
	if err != nil {
		c.broken("did not start: %v", err)
	}
	if top > maxMemory*3/2 {
		c.harm("the job uses %d MiB, limit %d", top>>20, maxMemory>>20)
	}
}

// memoryOf sums the resident memory of processes and the size of their memfd
// files.
func memoryOf(pids []process) (sum int64) {
	files := map[uint64]int64{}
	for _, p := range pids {
		f := strings.Fields(status(p.pid, "VmRSS"))
		if len(f) > 0 {
			kb, _ := strconv.ParseInt(f[0], 10, 64)
			sum += kb << 10
		}
		dir := "/proc/" + itoa(p.pid) + "/fd"
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			name := filepath.Join(dir, e.Name())
			link, _ := os.Readlink(name)
			fi, err := os.Stat(name)
			if err != nil || !strings.HasPrefix(link, "/memfd:") {
				continue
			}
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				files[st.Ino] = st.Blocks * 512
			}
		}
	}
	for _, n := range files {
		sum += n
	}
	return sum
}

// shared counts shared memory segments that no process has mapped, so no
// process's resident memory includes them.
func (c *cell) shared() {
	mb := 0
	_, err := c.held(c.limited(c.attack("mem-shm", "8", "60"), sandbox.Limits{Memory: maxMemory}), func(pids []process) {
		for _, p := range pids {
			if p.name != "attack" {
				continue
			}
			out, err := exec.Command(attackFile, "shm-of", itoa(p.pid)).CombinedOutput()
			if _, scan := fmt.Sscan(string(out), &mb); err != nil || scan != nil {
				c.broken("the segments cannot be counted: %s, %v", out, err)
			}
		}
	})
	if err != nil {
		c.broken("did not start: %v", err)
	}
	c.log("%d MiB of segments", mb)
	if mb > maxMemory*3/2>>20 {
		c.harm("the job uses %d MiB of shared memory, limit %d", mb, maxMemory>>20)
	}
}

const maxScratch, maxScratchFiles = 16 << 20, 256

// writable are the folders that a job may be able to write to.
var writable = []string{"/tmp", "/dev/shm", "/var/tmp", "/run", "/skills", "/home", "/"}

// scratch sums up what a job has written: in the folders that only it sees or,
// without a sandbox, in those of the cell.
func (c *cell) scratch(pids []process) (size int64, files int) {
	roots := []string{"/tmp", "/dev/shm", "/var/tmp", "/run"}
	if !c.spec.Control {
		roots = nil
		for _, p := range pids {
			if p.name == "attack" {
				roots = []string{"/proc/" + itoa(p.pid) + "/root/"} // with a slash: the walk does not follow links
			}
		}
	}
	for _, r := range roots {
		_ = filepath.WalkDir(r, func(p string, d fs.DirEntry, err error) error {
			rel := "/" + strings.Trim(strings.TrimPrefix(p, r), "/")
			switch {
			case err != nil:
				return nil
			case d.IsDir() && (rel == "/usr" || rel == "/proc" || rel == "/sys" || rel == attackTree):
				return fs.SkipDir
			case strings.HasPrefix(d.Name(), "fill"):
				if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() {
					size += fi.Size()
					files++
				}
			}
			return nil
		})
	}
	return size, files
}

func (c *cell) uses(l sandbox.Limits, args ...string) (size int64, files int) {
	l.Scratch, l.ScratchFiles = maxScratch, maxScratchFiles
	c.hold(c.limited(c.attack(args...), l), func(pids []process) { size, files = c.scratch(pids) })
	c.log("%d bytes in %d files", size, files)
	if files == 0 && !c.ownKernel() {
		c.broken("found no file that the job wrote")
	}
	return size, files
}

func (c *cell) fills() {
	if size, _ := c.uses(sandbox.Limits{}, append([]string{"fill", "64"}, writable...)...); size > 2*maxScratch {
		c.harm("%d MiB were written, limit %d", size>>20, maxScratch>>20)
	}
}

func (c *cell) bigFile() {
	const most = 4 << 20
	size, _ := c.uses(sandbox.Limits{FileSize: most}, "fill-one", "12", "/tmp/fill")
	if size > most {
		c.harm("a file has %d MiB, limit %d", size>>20, most>>20)
	}
}

func (c *cell) inodes() {
	if _, files := c.uses(sandbox.Limits{}, append([]string{"inodes", "2000"}, writable...)...); files > 2*maxScratchFiles {
		c.harm("%d files were created, limit %d", files, maxScratchFiles)
	}
}

func (c *cell) openFiles() {
	const most = 64
	c.hold(c.limited(c.attack("openfds", "2000"), sandbox.Limits{OpenFiles: most}), func(pids []process) {
		for _, p := range pids {
			if list, _ := os.ReadDir("/proc/" + itoa(p.pid) + "/fd"); p.name == "attack" && len(list) > most {
				c.harm("%v has %d open files, limit %d", p, len(list), most)
			}
		}
	})
}

// floods writes more than is kept, in texts that cannot be cut at every byte.
func (c *cell) floods(where string) {
	const most = 64<<10 + 1
	for what, text := range map[string]string{"lines": "all work and no play\n", "plain": "x", "binary": "\x00\xff\x1b\n", "utf8": "\u20ac", "broken": "\xe2\x82"} {
		r, err := c.try(context.Background(), c.limited(c.attack("flood", where, what, strconv.Itoa(8<<20)), sandbox.Limits{Output: most, Wall: 10 * time.Second}))
		if err != nil {
			c.broken("did not start: %v", err)
			return
		}
		chunk := strings.Repeat(text, 1<<15/len(text))
		want := []byte(strings.Repeat(chunk, 3)[:most])
		for _, s := range []struct {
			name string
			got  []byte
			cut  bool
			is   bool
		}{{"stdout", r.Stdout, r.StdoutTruncated, where != "stderr"}, {"stderr", r.Stderr, r.StderrTruncated, where != "stdout"}} {
			switch {
			case len(s.got) > most:
				c.harm("%s of %s: kept %d bytes, limit %d", s.name, what, len(s.got), most)
			case !s.is && (len(s.got) > 0 || s.cut):
				c.broken("%s of %s: %q", s.name, what, short(s.got))
			case s.is && !bytes.HasPrefix(want, s.got):
				c.broken("%s of %s is not the start of what was written", s.name, what)
			case where != "both" && s.is && (!s.cut || len(s.got) != most || r.Limit != sandbox.LimitOutput):
				c.broken("%s of %s: cut %v, %d bytes, limit %q", s.name, what, s.cut, len(s.got), r.Limit)
			}
		}
		if where == "both" && (!r.StdoutTruncated && !r.StderrTruncated || r.Limit != sandbox.LimitOutput) {
			c.broken("a flood of both ended with %s", fmt.Sprint(r.Exit, r.Limit, r.StdoutTruncated, r.StderrTruncated))
		}
	}
}
