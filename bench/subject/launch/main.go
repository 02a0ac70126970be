// Launch measures what it costs to run a program in a sandbox: ROUNDS times
// each, in turns, so that a slow moment hits all. It prints its timings as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"metier/bench/subject"
	"metier/sandbox"
	"metier/sandbox/gvisor"
	"metier/sandbox/native"
)

const usage = "usage: launch ROUNDS METIER DIR, with METIER_RUNSC in the environment for gVisor"

// slow is how many rounds are enough for what takes a tenth of a second.
const slow = 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New(usage)
	}
	rounds, err := strconv.Atoi(args[0])
	if err != nil || rounds < 1 {
		return errors.New(usage)
	}
	all, done, err := contestants(args[1], args[2])
	if err != nil {
		return err
	}
	for round := range rounds + 3 { // the first ones fill caches
		for i := range all {
			c := &all[i]
			if round%2 == 1 { // who comes first has what the one before left in the caches
				c = &all[len(all)-1-i]
			}
			if c.do == nil || c.most > 0 && round >= c.most+3 {
				continue
			}
			before, begin := spent(), time.Now()
			if err := c.do(ctx); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", c.Name, err), done())
			}
			took := time.Since(begin)
			if round >= 3 {
				c.Nanos, c.CPU = append(c.Nanos, took.Nanoseconds()), append(c.CPU, spent()-before)
			}
		}
	}
	timings := make([]subject.Timing, len(all))
	for i, c := range all {
		timings[i] = c.Timing
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(timings), done())
}

// spent is the time of processors that went into this process, and into those it
// started and waited for.
func spent() (nanos int64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			nanos += u.Utime.Nano() + u.Stime.Nano()
		}
	}
	return nanos
}

type contestant struct {
	subject.Timing
	do   func(context.Context) error // nil: it cannot be had here
	most int                         // rounds, if fewer are enough
}

var environment = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}

// contestants returns who takes part. dir is for what they write.
func contestants(cli, dir string) (all []contestant, done func() error, err error) {
	add := func(group, name string, most int, do func(context.Context) error, missing string) {
		all = append(all, contestant{subject.Timing{Group: group, Name: name, Error: missing}, do, most})
	}
	in := func(s sandbox.Sandbox, j sandbox.Job) func(context.Context) error {
		j.Env = environment
		return func(ctx context.Context) error {
			r, err := s.Run(ctx, j)
			if err == nil && r.Exit != 0 {
				err = fmt.Errorf("it ended as %+v", r)
			}
			return err
		}
	}
	ours, err := native.New(nil)
	if err != nil {
		return nil, nil, err
	}
	done = ours.Close
	bwrap, missing := exec.LookPath("bwrap")
	runsc, theirs, without := os.Getenv("METIER_RUNSC"), sandbox.Sandbox(nil), "METIER_RUNSC is not set"
	if _, err := os.Stat(runsc); runsc != "" && err != nil {
		without = "METIER_RUNSC cannot be reached"
	} else if runsc != "" {
		if theirs, err = gvisor.New(gvisor.Options{Path: runsc, Temp: dir}); err != nil {
			return nil, nil, errors.Join(err, ours.Close())
		}
		done = func() error { return errors.Join(ours.Close(), theirs.Close()) }
	}
	for _, w := range []struct {
		group string
		argv  []string
	}{{"`true`", []string{"/usr/bin/true"}}, {"`bash -c :`", []string{"/usr/bin/bash", "-c", ":"}}} {
		if missing == nil {
			add(w.group, "bubblewrap", 0, program(dir, bwrap, append(root, w.argv...)...), "")
		} else {
			add(w.group, "bubblewrap", 0, nil, "not installed")
		}
		add(w.group, "metier, native", 0, in(ours, sandbox.Job{Argv: w.argv}), "")
		if theirs != nil {
			add(w.group, "metier, gVisor", slow, in(theirs, sandbox.Job{Argv: w.argv}), "")
		} else {
			add(w.group, "metier, gVisor", 0, nil, without)
		}
		add(w.group, "no sandbox", 0, program(dir, w.argv[0], w.argv[1:]...), "")
	}
	tree := sandbox.Tree{Path: sandbox.SkillsDir + "/a"}
	for i := range 100 {
		tree.Files = append(tree.Files, sandbox.File{Path: fmt.Sprintf("references/f%03d", i), Data: bytes.Repeat([]byte{byte('a' + i%26)}, 8<<10)})
	}
	add("`true` beside 100 files of 8 KiB", "metier, native", 0, in(ours, sandbox.Job{Argv: []string{"/usr/bin/true"}, Trees: []sandbox.Tree{tree}}), "")
	if err := skill(dir); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	add("the command, as a whole process", "metier version", 0, program(dir, cli, "version"), "")
	add("the command, as a whole process", "metier sandbox run -- true", 0, program(dir, cli, "sandbox", "run", "--", "true"), "")
	add("the command, as a whole process", "metier exec small scripts/a.sh", 0, program(dir, cli, "exec", "small", "scripts/a.sh", "--skills-root", "skills"), "")
	return all, done, nil
}

// root is what bubblewrap is given: the same folders of the host as ours shows,
// and the same namespaces.
var root = []string{"--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
	"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}

// program runs one with its output kept, as a caller of a sandbox has it.
func program(dir, name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %.300s", err, stderr.Bytes())
		}
		return nil
	}
}

// skill writes a skill with a script that does nothing.
func skill(dir string) error {
	at := filepath.Join(dir, "skills", "small")
	if err := os.MkdirAll(filepath.Join(at, "scripts"), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(at, "SKILL.md"), []byte("---\nname: small\ndescription: Does nothing.\n---\nText.\n"), 0o644),
		os.WriteFile(filepath.Join(at, "scripts", "a.sh"), []byte("#!/bin/sh\n:\n"), 0o755))
}
