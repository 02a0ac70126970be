package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
	"metier/engine"
	"metier/event"
	"metier/internal/testenv"
	"metier/record"
)

// The runs in testdata/records/runs were recorded by an earlier version of
// metier, with testdata/records/record.sh. Its records have to be read, verified
// and resumed for as long as users have them.
//
// A record has the absolute paths of its workspace, and each entry the hash of
// the previous one: it cannot be moved without rewriting it, which the old
// version did not do. So a fixture is copied back to the folder where it was
// recorded, below recordedAt. A private mount there would need rights that an
// ordinary user lacks on many systems, and would hide the sandbox's own mounts.
// A folder in /tmp needs none. Other tests on the machine may need it too, so it
// belongs to the holder of a lock on /tmp itself. Every user can take that lock,
// it leaves no file that the next user cannot open, and it ends with its holder.
const recordedAt = "/tmp/metier-recorded"

// recordedRun is a kind of run and how it continues.
type recordedRun struct {
	run    string   // suffix of its id
	status string   // before
	answer bool     // it waits for a user's yes
	flags  []string // of the resume
	out    []string // texts of the answer
	err    []string // texts on standard error
	files  map[string]string
}

var recordedRuns = map[string]recordedRun{
	"plain": {status: "done", out: []string{"greeting.txt is written."}, files: map[string]string{"ws/greeting.txt": "Good to see you, Ada.\n"}},
	"phases": {run: "-build", status: "parked", answer: true, out: []string{"Built: "},
		files: map[string]string{"ws/counter.txt": "1\n"}},
	"approval": {status: "parked", answer: true, out: []string{"Counted."}, files: map[string]string{"ws/ran.txt": "named a\nasked b c\n"}},
	"children": {status: "parked", answer: true, out: []string{"It holds one.", "Wrote: "}, files: map[string]string{"ws/b.txt": "two\n"}},
	"mcp":      {status: "parked", answer: true, out: []string{"The desk is empty.", "The letter is sent."}, files: map[string]string{"sent.txt": "sent\n"}},
	"browser": {status: "parked", answer: true, out: []string{"its time is over"}, err: []string{"note: the shared browser session ended at ", "--browser-until to renew it"},
		files: map[string]string{"ws/page.txt": "One apple"}},
	"killed-before": {status: "interrupted", out: []string{"Edited: "}, files: map[string]string{"ws/a.txt": "one one\n"}},
	"killed-after":  {status: "interrupted", out: []string{"Edited: "}, files: map[string]string{"ws/a.txt": "one one\n"}},
	"limit":         {status: "failed", flags: []string{"--max-turns", "5"}, out: []string{"From the sub folder.", "From afar."}},
}

// Runs of an earlier version of metier can be read, verified, and resumed.
func TestRecordedRunsGoOn(t *testing.T) {
	t.Parallel()
	from := recordedFixtures(t)
	var kinds []string
	for _, d := range readDir(t, from) {
		kinds = append(kinds, d.Name())
		if _, known := recordedRuns[d.Name()]; !known {
			t.Errorf("nothing is known of %s", d.Name())
		}
	}
	if len(kinds) != len(recordedRuns) {
		t.Errorf("there are %q, want %d kinds", kinds, len(recordedRuns))
	}
	holdRecorded(t)
	for kind, c := range recordedRuns {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(recordedAt, kind)
			putBackRecorded(t, filepath.Join(from, kind), dir)
			r := &recorder{t: t, dir: dir, cache: t.TempDir()}
			id := r.id(c.run)
			for _, d := range readDir(t, filepath.Join(dir, "runs")) {
				r.want(0, "audit", "verify", d.Name())
			}
			r.shows(id, c.status)
			if c.answer {
				r.want(0, "runs", "approve", id)
			}
			r.want(0, append([]string{"run", "--resume", id}, c.flags...)...)
			r.said(&r.out, c.out)
			r.said(&r.err, c.err)
			for name, want := range c.files {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(b), want) || strings.HasSuffix(want, "\n") && string(b) != want {
					t.Errorf("%s: %q, %v, want %q", name, b, err, want)
				}
			}
			r.shows(id, "done")
			for _, d := range readDir(t, filepath.Join(dir, "runs")) {
				r.want(0, "audit", "verify", d.Name())
			}
		})
	}
}

// The launch options of a run are in its record under the names of that time. None is unknown,
// lost, or renamed.
func TestRecordedLaunchesAreReadInFull(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir(recordedFixtures(t), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "events.jsonl" {
			return err
		}
		n++
		was := recordedLaunch(t, p)
		var l engine.Launch
		dec := json.NewDecoder(bytes.NewReader(was))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			t.Errorf("%s: %v", p, err)
			return nil
		}
		is, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if d := cmp.Diff(anyJSON(t, was), anyJSON(t, is)); d != "" {
			t.Errorf("%s (-recorded +read):\n%s", p, d)
		}
		return nil
	})
	if err != nil || n < len(recordedRuns) {
		t.Errorf("%d launches: %v", n, err)
	}
}

func recordedFixtures(t *testing.T) string {
	return filepath.Join(testenv.Module(t), "testdata", "records", "runs")
}

// recordedLaunch holds the recorded parameters of a run's start.
func recordedLaunch(t *testing.T, log string) []byte {
	t.Helper()
	f, err := os.Open(log)
	must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var en record.Entry
		must(t, json.Unmarshal(lines.Bytes(), &en))
		if en.Type != (event.SessionOpened{}).Type() {
			continue
		}
		e, err := event.Decode(en)
		must(t, err)
		blobs, err := record.OpenBlobs(filepath.Join(filepath.Dir(log), "blobs"), &record.Options{ReadOnly: true})
		must(t, err)
		defer blobs.Close()
		b, err := blobs.Open(t.Context(), e.(event.SessionOpened).Launch)
		must(t, err)
		return b
	}
	t.Fatalf("%s opens no session: %v", log, lines.Err())
	return nil
}

func anyJSON(t *testing.T, b []byte) (v any) {
	t.Helper()
	must(t, json.Unmarshal(b, &v))
	return v
}

func readDir(t *testing.T, dir string) []fs.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	return list
}

// holdRecorded creates the folder of recorded runs, which belongs to the test until
// it ends.
func holdRecorded(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "the records hold paths of Linux, and programs run in a sandbox there")
	}
	cmd := exec.Command(testenv.NeedTool(t, "flock", "util-linux"), "/tmp", "sh", "-c", "echo held; exec cat")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // cat ends, and the lock with it, even if this process is killed
		_ = cmd.Wait()
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("no lock of /tmp: %q, %v", said, err)
	}
	if err := os.RemoveAll(recordedAt); err != nil {
		testenv.Skip(t, "needs "+recordedAt+", which another user left there: "+err.Error())
	}
	must(t, os.Mkdir(recordedAt, 0o755))
	t.Cleanup(func() { must(t, os.RemoveAll(recordedAt)) })
}

// putBackRecorded copies a fixture to where it was recorded. Version control keeps
// no modes: heads that other users can write would prove nothing.
func putBackRecorded(t *testing.T, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	}))
}

// recorder runs metier like testdata/records/record.sh did.
type recorder struct {
	t          *testing.T
	dir, cache string
	out, err   bytes.Buffer
}

// id returns the id of the run whose id has a suffix.
func (r *recorder) id(suffix string) string {
	r.t.Helper()
	for _, d := range readDir(r.t, filepath.Join(r.dir, "runs")) {
		if strings.HasSuffix(d.Name(), suffix) {
			return d.Name()
		}
	}
	r.t.Fatalf("no run …%s", suffix)
	return ""
}

func (r *recorder) want(exit int, args ...string) {
	r.t.Helper()
	r.out.Reset()
	r.err.Reset()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.dir, "home"), "XDG_STATE_HOME=" + filepath.Join(r.dir, "state"), "XDG_CACHE_HOME=" + r.cache,
		"USER=ada", "METIER_PRINCIPAL=ada", "METIER_CONFIG=" + filepath.Join(r.dir, "home", "config.yaml"), "OLLAMA_HOST=127.0.0.1:1", "TZ=UTC"}
	args = slices.Concat(args, []string{"--artifact-root", filepath.Join(r.dir, "runs")})
	if got := cli.MainNoWait(r.t.Context(), args, env, cli.IO{In: strings.NewReader(""), Out: &r.out, Err: &r.err, Dir: filepath.Join(r.dir, "ws")}); got != exit {
		r.t.Fatalf("metier %q: exit %d, want %d\n%s%s", args, got, exit, r.out.String(), r.err.String())
	}
}

// shows checks what the report prints about a run.
func (r *recorder) shows(id, status string) {
	r.t.Helper()
	r.want(0, "runs", "show", id, "--json")
	var doc struct{ Status string }
	if err := json.Unmarshal(r.out.Bytes(), &doc); err != nil || doc.Status != status {
		r.t.Errorf("status %q, want %q: %v\n%s", doc.Status, status, err, r.out.String())
	}
}

func (r *recorder) said(got *bytes.Buffer, want []string) {
	r.t.Helper()
	for _, s := range want {
		if !strings.Contains(got.String(), s) {
			r.t.Errorf("%q is not said:\n%s%s", s, r.out.String(), r.err.String())
		}
	}
}
