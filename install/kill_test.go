package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/install"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
)

// killAt is the environment variable with the number of the step before which the process kills
// itself, and killIn the one with the folder in which it installs.
const killAt, killIn = "TEST_KILL_AT", "TEST_KILL_IN"

// TestKilledProcess is the process that another test kills.
func TestKilledProcess(t *testing.T) {
	at, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		return // it was not started by that test
	}
	n := 0
	defer atomicfile.SetHook(func(stage, path string) error {
		if n++; n == at {
			testenv.Die(strconv.Itoa(at))
		}
		return nil
	})()
	p := placeIn(t, os.Getenv(killIn))
	s := p.open()
	r := p.request()
	r.Agents = []string{"one"}
	plan, err := p.prepare(s, r)
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err == nil {
		if plan, err = s.Remove(t.Context(), []string{"gone"}, false); err == nil {
			err = plan.Apply(t.Context())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("steps=%d\n", n)
}

// stages returns what a store looks like before, between, and after the two changes of the process
// that is killed: it updates and adds skills, and removes one.
func stages() []map[string]string {
	old := map[string]string{"pdf": "old", "docx": "old", "gone": "old"}
	mid := map[string]string{"pdf": "new", "docx": "new", "gone": "old", "more": "new"}
	return []map[string]string{old, mid, {"pdf": "new", "docx": "new", "more": "new"}}
}

// installed returns the version of each skill, and fails if its files are of two versions.
func (p place) installed(where string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, name := range []string{"pdf", "docx", "gone", "more"} {
		dir := filepath.Join(p.dir, name)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		a, b := tree(p.t, dir)["references/a.md"], tree(p.t, dir)["references/b.md"]
		if a != b {
			p.t.Errorf("%s: %s has files of two versions: %q and %q", where, name, a, b)
		}
		out[name] = a[len(a)-3:]
	}
	return out
}

func (p place) version(names []string, version string) {
	for _, name := range names {
		p.write(map[string]string{name + "/SKILL.md": skill(name, version), name + "/references/a.md": version, name + "/references/b.md": version, name + "/scripts/c.sh": version})
	}
}

// A real SIGKILL before each change of a file or folder. When the store is opened again, it is what
// it was before the change or after it, and so is the lock.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	start := func(at int) (p place, steps int, killed bool) {
		p = newPlace(t)
		p.version([]string{"pdf", "docx", "gone"}, "old")
		s := p.open()
		p.add(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(p.in, "gone")); err != nil {
			t.Fatal(err)
		}
		p.version([]string{"pdf", "docx", "more"}, "new")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(at), killIn+"="+filepath.Dir(p.dir))
		out, err := cmd.CombinedOutput()
		if at == 0 {
			if _, serr := fmt.Sscanf(string(out), "steps=%d", &steps); err != nil || serr != nil {
				t.Fatalf("%v, %v: %s", err, serr, out)
			}
		}
		return p, steps, testenv.DiedAt(cmd.ProcessState, out, strconv.Itoa(at))
	}
	_, steps, _ := start(0)
	if steps < 50 {
		t.Fatalf("only %d steps: the faults are not injected", steps)
	}
	var kills testenv.Kills
	seen := map[int]bool{}
	every := testenv.Count(5, 1)
	for at := 1; at <= steps; at += every {
		p, _, killed := start(at)
		if !kills.Count(killed) {
			continue
		}
		where := fmt.Sprintf("killed at step %d of %d", at, steps)
		s := p.open()
		got, found := p.installed(where), false
		for i, want := range stages() {
			if cmp.Equal(want, got) {
				seen[i], found = true, true
			}
		}
		if !found {
			t.Errorf("%s: the skills are %v", where, got)
		}
		for name, state := range p.states(s) {
			if state != install.Intact {
				t.Errorf("%s: %s is %s", where, name, state)
			}
		}
		if diff := cmp.Diff([]string{"lock"}, names(t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
			t.Errorf("%s: what was staged is left (-want +got):\n%s", where, diff)
		}
	}
	kills.Check(t, steps/every)
	if diff := cmp.Diff(map[int]bool{0: true, 1: true, 2: true}, seen); diff != "" {
		t.Errorf("the stages that were reached (-want +got):\n%s", diff)
	}
}
