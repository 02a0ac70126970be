package sandboxtest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"metier/sandbox"
)

// holdings is what this process and the machine hold at one moment, by kind.
type holdings map[string][]string

// holdingsNow lists descriptors, mounts, child processes, zombies, folders, and
// goroutines. dirs are where folders might be left; nil means the default temporary
// folders.
func holdingsNow(dirs []string) holdings {
	if dirs == nil {
		dirs = []string{os.TempDir(), "/tmp", "/dev/shm", "/run", "/var/tmp", "/sys/fs/cgroup"}
	}
	h := holdings{}
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(link, "/fd") {
			h["descriptor"] = append(h["descriptor"], e.Name()+" "+link)
		}
	}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	h["mount"] = slices.Collect(strings.Lines(string(b)))
	for _, p := range processes() {
		if descends(p) {
			kind := "process"
			if p.state == "Z" {
				kind = "zombie"
			}
			h[kind] = append(h[kind], fmt.Sprint(p.pid, " ", p.name))
		}
	}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && p != dir {
				h["folder"] = append(h["folder"], p)
			}
			return nil
		})
	}
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		lines := strings.Split(g, "\n")
		made := lines[len(lines)-1]
		if len(lines) > 2 && strings.HasPrefix(lines[len(lines)-2], "created by") {
			made = lines[len(lines)-2]
		}
		made, _, _ = strings.Cut(made, " in goroutine")
		h["goroutine"] = append(h["goroutine"], made)
	}
	return h
}

// descends reports whether a process is a descendant of this process.
func descends(p process) bool {
	for pid := p.parent; pid > 0; {
		if pid == os.Getpid() {
			return true
		}
		next := 0
		for _, q := range processes() {
			if q.pid == pid {
				next = q.parent
			}
		}
		pid = next
	}
	return false
}

// more lists what h has and old did not have: "2 descriptors: …".
func (h holdings) more(old holdings) (out []string) {
	for _, kind := range slices.Sorted(maps.Keys(h)) {
		rest := slices.Clone(old[kind])
		var extra []string
		for _, x := range h[kind] {
			if i := slices.Index(rest, x); i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			} else {
				extra = append(extra, strings.TrimSpace(x))
			}
		}
		if kind == "descriptor" { // numbers are reused: compare counts
			extra = extra[:max(0, min(len(extra), len(h[kind])-len(old[kind])))]
		}
		if len(extra) > 0 {
			out = append(out, fmt.Sprintf("%d of kind %s: %q", len(extra), kind, extra[:min(len(extra), 5)]))
		}
	}
	return out
}

// leaked compares with before, and waits a while for what is slow to go.
func leaked(before holdings, dirs []string, while time.Duration) []string {
	deadline, tick := time.After(while), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		more := holdingsNow(dirs).more(before)
		if len(more) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return more
		}
	}
}

// launches starts a program many times and looks for leaks.
func (c *cell) launches() {
	n := c.options.Launches
	switch {
	case c.spec.Control:
		n = 5
	case n == 0 && c.spec.Seat == rootSeat:
		n = 1000
	case n == 0:
		n = 250
	}
	j := c.attack()
	j.Argv = []string{"/bin/true"}
	j.Trees = []sandbox.Tree{{Path: "/skills/s", Files: []sandbox.File{{Path: "f", Data: []byte("x")}}}}
	j.MinLevel = c.level()
	launch := func() {
		if r, err := c.box.Run(context.Background(), j); err != nil || r.Exit != 0 {
			c.broken("%+v, %v", r, err)
		}
	}
	if !c.spec.Control { // created once and kept
		for range 5 {
			launch()
		}
	}
	before := holdingsNow(nil)
	began := time.Now()
	for range n {
		launch()
		if c.report.Broken != nil {
			return
		}
	}
	c.log("%d launches took %v", n, time.Since(began))
	for _, l := range leaked(before, nil, c.patience()) {
		c.harm("%d launches left behind: %s", n, l)
	}
}

func (c *cell) hundred() {
	launch := func() {
		j := c.attack("ok", "here")
		j.MinLevel = c.level()
		j.Limits.Wall = 25 * time.Second
		if r, err := c.box.Run(context.Background(), j); err != nil || string(r.Stdout) != "here\n" {
			c.broken("%d %s %s %q, %v", r.Exit, r.Signal, r.Limit, r.Stderr, err)
		}
	}
	if !c.spec.Control { // created once and kept
		for range 5 {
			launch()
		}
	}
	before := holdingsNow(nil)
	var jobs sync.WaitGroup
	for range 100 {
		jobs.Go(launch)
	}
	jobs.Wait()
	for _, l := range leaked(before, nil, c.patience()) {
		c.harm("100 parallel launches left behind: %s", l)
	}
}
