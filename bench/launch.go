package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"metier/bench/subject"
)

// launchBudget is the most times bubblewrap that a launch of `true` may take.
const launchBudget = 1.25

// launches measures what it costs to run a program in a sandbox, and returns
// that part of the page: for whoever runs the bench, and for root also as nobody.
func (b *bench) launches(rounds int) (string, error) {
	var t strings.Builder
	fmt.Fprintf(&t, `%sa program in a sandbox

Written by `+"`make bench`, and alone by `make bench-launch`"+`; do not edit. Each line is of at most %d runs, all lines in turns. Sandboxes are
warm and called in process, but for bubblewrap, which is a process; it is given the same folders of the host and the same namespaces,
but neither system call filter nor Landlock, no limits, and nobody who watches. × is the middle of the ratios to bubblewrap, or to the
first line, run by run; for `+"`true` it may be %.2f"+`. CPU is of all processes together, and
says more than the time where others use the machine.
`, launchTitle, rounds, launchBudget)
	if runtime.GOOS != "linux" {
		t.WriteString("There is no sandbox on this system.\n")
		return t.String(), nil
	}
	before := load()
	for _, nobody := range []bool{false, true} {
		if nobody && os.Geteuid() != 0 {
			continue
		}
		all, err := b.race(rounds, nobody)
		if err != nil {
			return "", err
		}
		who := map[bool]string{true: "root", false: "an ordinary user"}[os.Geteuid() == 0 && !nobody]
		launchTable(&t, who, all)
	}
	fmt.Fprintf(&t, "\nMachine: %s; load %s when begun.\n", machine(), before)
	return t.String(), nil
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg") // absent elsewhere than on Linux
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// race runs the subject once.
func (b *bench) race(rounds int, nobody bool) ([]subject.Timing, error) {
	home, err := os.MkdirTemp(b.scratch, "home-")
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(b.ctx, filepath.Join(b.bin, "launch"), strconv.Itoa(rounds), filepath.Join(b.bin, "cli"), home)
	c.Dir = home
	c.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home)
	if nobody {
		if err := b.toNobody(c, home); err != nil {
			return nil, err
		}
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("launch: %w: %s", err, stderr.Bytes())
	}
	var all []subject.Timing
	return all, json.Unmarshal(out, &all)
}

// toNobody makes a command that of an ordinary user, whom its files are given to.
func (b *bench) toNobody(c *exec.Cmd, home string) error {
	const nobody = 65534
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return fmt.Errorf("%w (Debian package util-linux)", err)
	}
	c.Args = append([]string{setpriv, fmt.Sprint("--reuid=", nobody), fmt.Sprint("--regid=", nobody), "--clear-groups", "--", c.Path}, c.Args[1:]...)
	c.Path = setpriv
	return errors.Join(os.Chmod(b.scratch, 0o755), os.Chmod(b.bin, 0o755), os.Chown(home, nobody, nobody))
}

// launchTable writes one table: contestants of one work together, those it is
// compared with first.
func launchTable(t *strings.Builder, who string, all []subject.Timing) {
	fmt.Fprintf(t, "\n## As %s\n\n| what | in | runs | median ms | p95 ms | × | CPU ms |\n|---|---|--:|--:|--:|--:|--:|\n", who)
	var first subject.Timing
	for _, x := range all {
		if x.Group != first.Group {
			first = x
		}
		if len(x.Nanos) == 0 {
			fmt.Fprintf(t, "| %s | %s | %s | | | | |\n", x.Group, x.Name, x.Error)
			continue
		}
		ratio := ""
		if len(first.Nanos) > 0 && x.Name != first.Name {
			mid := ratioOf(x, first)
			ratio = fmt.Sprintf("%.2f", mid)
			if x.Group == "`true`" && x.Name == "metier, native" && mid > launchBudget {
				ratio += " missed"
			}
		}
		v := slices.Sorted(slices.Values(x.Nanos))
		fmt.Fprintf(t, "| %s | %s | %d | %s | %s | %s | %s |\n", x.Group, x.Name, len(v), short(time.Duration(v[len(v)/2])), short(time.Duration(v[(len(v)*95-1)/100])), ratio,
			short(time.Duration(middle(x.CPU))))
	}
}
