package install_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
)

// smallDisk is the environment variable with the folder of a small file system of its own.
const smallDisk = "TEST_INSTALL_DISK"

// onSmallDisk runs the test again with a small file system, in a process that may mount others. It returns
// "" in the first run.
func onSmallDisk(t *testing.T) string {
	t.Helper()
	if dir, ok := os.LookupEnv(smallDisk); ok {
		return dir
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Skip(t, "needs unshare for a small file system: "+err.Error())
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), unshare, "-Urm", "sh", "-c", `mount -t tmpfs -o size=512k none "$`+smallDisk+`" || exit 99; exec "$0" -test.run "^`+t.Name()+`$" -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), smallDisk+"="+dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 99 || bytes.HasPrefix(out, []byte("unshare:"))) {
		testenv.Skip(t, "needs unshare -Urm and mount for a small file system: "+string(out))
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return ""
}

// fill fills the file system with a file, and returns a function that removes it.
func fill(t *testing.T, dir string) func() {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 4096; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func (p place) apply(s *install.Store) error {
	p.t.Helper()
	plan, err := p.prepare(s, p.request())
	if err == nil {
		err = plan.Apply(p.t.Context())
	}
	return err
}

// noneStaged fails if something is left in the staging folder.
func (p place) noneStaged() {
	p.t.Helper()
	if diff := cmp.Diff([]string{"lock"}, names(p.t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
		p.t.Errorf("what was staged is left (-want +got):\n%s", diff)
	}
}

func code(t *testing.T, want string, err error) {
	t.Helper()
	if diff := cmp.Diff(want, metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A disk that is full while files are staged leaves the old skills.
func TestApply_OnADiskThatIsFullBefore(t *testing.T) {
	dir := onSmallDisk(t)
	if dir == "" {
		return
	}
	p := placeIn(t, dir)
	p.in = t.TempDir()
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "old")})
	s := p.open()
	p.add(s)
	old := tree(t, filepath.Join(p.dir, "pdf"))
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new"), "pdf/large": strings.Repeat("x", 1<<20)})
	code(t, "disk_full", p.apply(s))
	s.Close()
	s = p.open()
	p.noneStaged()
	if diff := cmp.Diff(old, tree(t, filepath.Join(p.dir, "pdf"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]install.State{"pdf": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A disk that is full after the change was decided delays the change.
func TestApply_OnADiskThatIsFullAfterTheDecision(t *testing.T) {
	dir := onSmallDisk(t)
	if dir == "" {
		return
	}
	p := placeIn(t, dir)
	p.in = t.TempDir()
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "old")})
	s := p.open()
	p.add(s)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new")})
	plan, err := p.prepare(s, p.request())
	if err != nil {
		t.Fatal(err)
	}
	var empty func()
	undo := atomicfile.SetHook(func(stage, _ string) error {
		if stage == "install-step" && empty == nil {
			empty = fill(t, dir)
		}
		return nil
	})
	err = plan.Apply(t.Context())
	undo()
	code(t, "disk_full", err)
	if e, ok := errors.AsType[*metier.Error](err); !ok || !strings.Contains(e.Hint, "the next command completes the change") {
		t.Errorf("hint of %v", err)
	}
	s.Close()
	_, err = p.try()
	code(t, "disk_full", err)
	empty()
	s = p.open()
	p.noneStaged()
	if diff := cmp.Diff(skill("pdf", "new"), p.read(filepath.Join(p.dir, "pdf/SKILL.md"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]install.State{"pdf": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A folder that cannot be written is found before the change is decided.
func TestApply_IntoFoldersThatAreReadOnly(t *testing.T) {
	dir := onSmallDisk(t)
	if dir == "" {
		return
	}
	for _, at := range []string{"skills/.metier/provenance", "skills/.metier/install", "."} {
		base := filepath.Join(dir, strings.ReplaceAll(at, "/", "-")+"-x")
		p := placeIn(t, base)
		p.in = t.TempDir()
		p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "old")})
		first := p.open()
		p.add(first)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new")})
		folder := filepath.Join(base, at)
		for _, args := range [][]string{{"--bind", folder, folder}, {"-o", "remount,ro,bind", folder}} {
			if out, err := exec.CommandContext(t.Context(), "mount", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		s, err := p.try()
		if err == nil {
			err = p.apply(s)
		}
		code(t, "install_unwritable", err)
		if err == nil || !strings.Contains(err.Error(), base) {
			t.Errorf("%v does not name %s", err, folder)
		}
		if s != nil {
			s.Close()
		}
		if out, err := exec.CommandContext(t.Context(), "umount", folder).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p.open()
		p.noneStaged()
		if diff := cmp.Diff(skill("pdf", "old"), p.read(filepath.Join(p.dir, "pdf/SKILL.md"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A lock that another program changes during a command is not overwritten.
func TestApply_KeepsALockThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	plan, err := p.prepare(s, p.request())
	if err != nil {
		t.Fatal(err)
	}
	text := "{\"version\":1,\"skills\":{\"other\":{\"kind\":\"folder\",\"source\":\"/x\",\"tree\":\"sha256:" + strings.Repeat("0", 64) + "\",\"files\":{}}}}"
	p.put(p.lock, text)
	code(t, "lock_changed", plan.Apply(t.Context()))
	if diff := cmp.Diff(text, p.read(p.lock)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpen_NamesABrokenLink(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.link("missing", p.dir)
	_, err := p.try()
	code(t, "install_unwritable", err)
}

// commandIn is the environment variable with the folder, and commandIs the one with the change, of a
// process that changes a store.
const commandIn, commandIs = "TEST_COMMAND_IN", "TEST_COMMAND_IS"

// TestOneOfSeveralProcesses is a process that another test starts.
func TestOneOfSeveralProcesses(t *testing.T) {
	in := os.Getenv(commandIn)
	if in == "" {
		return // it was not started by that test
	}
	p := placeIn(t, in)
	change, name, _ := strings.Cut(os.Getenv(commandIs), " ")
	s := p.open()
	var plan *install.Plan
	var err error
	switch change {
	case "add":
		plan, err = p.prepare(s, install.Request{Source: install.Source{Kind: install.Folder, Location: p.in}, Skills: []string{name}})
	case "remove":
		plan, err = s.Remove(t.Context(), []string{name}, false)
	case "update":
		plan, err = s.Update(t.Context(), []string{name}, false, p.settings())
	}
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// Commands at the same time wait for each other, and none loses what another one did.
func TestSeveralProcessesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"gone/SKILL.md": skill("gone", ""), "pdf/SKILL.md": skill("pdf", "old")})
	s := p.open()
	p.add(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "new")})
	changes := []string{"remove gone", "update pdf"}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.write(map[string]string{name + "/SKILL.md": skill(name, "")})
		changes = append(changes, "add "+name)
	}
	var started []*exec.Cmd
	var outputs []*bytes.Buffer
	for _, change := range changes {
		cmd, out := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneOfSeveralProcesses$"), &bytes.Buffer{}
		cmd.Env = append(os.Environ(), commandIn+"="+filepath.Dir(p.dir), commandIs+"="+change)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started, outputs = append(started, cmd), append(outputs, out)
	}
	for i, cmd := range started {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", changes[i], err, outputs[i])
		}
	}
	s = p.open()
	want := map[string]install.State{"a": install.Intact, "b": install.Intact, "c": install.Intact, "d": install.Intact, "pdf": install.Intact}
	if diff := cmp.Diff(want, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(skill("pdf", "new"), p.read(filepath.Join(p.dir, "pdf/SKILL.md"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
