package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// scanWorld is a folder of skills, read by commands whose clock is ahead: files
// that were just written count as settled.
type scanWorld struct {
	t   *testing.T
	dir string
	env []string
}

func newScanWorld(t *testing.T) *scanWorld {
	t.Helper()
	w := &scanWorld{t: t, dir: t.TempDir()}
	w.env = []string{"HOME=" + filepath.Join(w.dir, "home"), "OLLAMA_HOST=127.0.0.1:1"}
	for _, p := range []string{"home", "ws/skills/one/SKILL.md", "ws/skills/two/SKILL.md"} {
		full := filepath.Join(w.dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if p == "home" {
			full = filepath.Join(full, "x")
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(full, []byte("---\nname: "+filepath.Base(filepath.Dir(p))+"\ndescription: says before\n---\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *scanWorld) metier(args ...string) (out, errs string) { return w.at(time.Minute, args...) }

// at runs a command whose clock is ahead by late, and gains a second each time it is read.
func (w *scanWorld) at(late time.Duration, args ...string) (out, errs string) {
	w.t.Helper()
	var o, e bytes.Buffer
	a := newApp(w.env, IO{In: strings.NewReader(""), Out: &o, Err: &e, Dir: filepath.Join(w.dir, "ws")})
	var reads atomic.Int64
	a.now = func() time.Time { return time.Now().Add(late + time.Duration(reads.Add(1))*time.Second) }
	if code := a.main(w.t.Context(), args); code != 0 {
		w.t.Fatalf("%v: exit %d: %s%s", args, code, o.String(), e.String())
	}
	return o.String(), e.String()
}

// read parses the counts that a command prints.
func (w *scanWorld) read(text string) string {
	w.t.Helper()
	m := regexp.MustCompile(`skills(?: \(project\): 2 skills)?[:;] (3 folders scanned) in [1-9][0-9]{3,}\.[0-9] ms, ([0-9] unchanged since the index, [0-9] read)`).FindStringSubmatch(text)
	if m == nil {
		w.t.Fatalf("no times in %q", text)
	}
	return m[2]
}

// req: C-024
func TestStartTimesAreReportedAndAHiddenEditIsSeen(t *testing.T) {
	t.Parallel()
	w := newScanWorld(t)
	list := []string{"list", "--skills-root", "skills", "--verbose"}
	for range 2 { // the files have just changed, and could change unnoticed
		if _, fresh := w.at(-time.Minute, list...); w.read(fresh) != "0 unchanged since the index, 3 read" {
			t.Errorf("fresh: %q", w.read(fresh))
		}
	}
	_, cold := w.metier(list...)
	_, warm := w.metier(list...)
	if c, h := w.read(cold), w.read(warm); c != "0 unchanged since the index, 3 read" || h != "3 unchanged since the index, 0 read" {
		t.Errorf("cold %q, warm %q", c, h)
	}
	file := filepath.Join(w.dir, "ws", "skills", "two", "SKILL.md")
	old, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(bytes.Replace(text, []byte("before"), []byte("behind"), 1))
	f.Close()
	if err := os.Chtimes(file, old.ModTime(), old.ModTime()); err != nil {
		t.Fatal(err)
	}
	out, errs := w.metier(list...)
	if now := w.read(errs); now != "2 unchanged since the index, 1 read" || strings.Count(out, "says behind") != 1 || strings.Count(out, "says before") != 1 {
		t.Errorf("after the edit: %q\n%s", now, out)
	}
	out, _ = w.metier("doctor", "--skills-root", "skills")
	if now := w.read(out); now != "3 unchanged since the index, 0 read" {
		t.Errorf("doctor: %q", now)
	}
}

// The index is stored where configured, can be disabled and cleared, and never causes a home folder
// to be created.
//
// req: C-024
func TestIndexIsWhereTheUserWantsIt(t *testing.T) {
	t.Parallel()
	w := newScanWorld(t)
	count := func(dir string) int {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*.idx"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	home, list := filepath.Join(w.dir, "home"), []string{"list", "--skills-root", "skills"}
	fixed := w.env
	for name, c := range map[string]struct{ env, dir string }{
		"home":     {"X=", filepath.Join(home, ".cache", "metier", "index")},
		"cache":    {"XDG_CACHE_HOME=" + filepath.Join(w.dir, "cache"), filepath.Join(w.dir, "cache", "metier", "index")},
		"named":    {"METIER_INDEX=" + filepath.Join(w.dir, "named"), filepath.Join(w.dir, "named")},
		"relative": {"METIER_INDEX=rel", filepath.Join(w.dir, "ws", "rel")},
	} {
		w.env = append(fixed[:len(fixed):len(fixed)], c.env)
		if w.metier(list...); count(c.dir) != 1 {
			t.Errorf("%s: %d index files", name, count(c.dir))
		}
		if out, _ := w.metier("doctor"); !strings.Contains(out, "1 file of 1 kB in "+c.dir) {
			t.Errorf("%s: doctor says %s", name, out)
		}
		if out, _ := w.metier("doctor", "--clear-index"); !strings.Contains(out, "1 file removed from "+c.dir) || count(c.dir) != 0 {
			t.Errorf("%s: %d files, doctor says %s", name, count(c.dir), out)
		}
	}
	for why, env := range map[string]string{"METIER_INDEX is off": "METIER_INDEX=off", "does not exist": "HOME=" + filepath.Join(w.dir, "nobody")} {
		if err := os.RemoveAll(filepath.Join(home, ".cache")); err != nil {
			t.Fatal(err)
		}
		w.env = append(fixed[:len(fixed):len(fixed)], env)
		w.metier(list...)
		if out, _ := w.metier("doctor"); !strings.Contains(out, "every listing reads all skill headers") || !strings.Contains(out, why) {
			t.Errorf("doctor says %s, not why: %s", out, why)
		}
		for _, p := range []string{filepath.Join(w.dir, "nobody"), filepath.Join(home, ".cache")} {
			if _, err := os.Stat(p); err == nil {
				t.Errorf("%s was made", p)
			}
		}
	}
}

// A run uses only the files: it neither writes nor reads an index.
//
// req: C-024
func TestARunHasNoIndex(t *testing.T) {
	t.Parallel()
	w := newScanWorld(t)
	w.metier("list", "--skills-root", "skills")
	cache := filepath.Join(w.dir, "home", ".cache")
	if _, err := os.Stat(cache); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(w.dir, "script.yaml")
	if err := os.WriteFile(script, []byte(loadScript), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := w.metier("run", "--skills-root", "skills", "--model", "scripted:"+script, "--dry-run", "--prompt", "Say it."); !strings.Contains(out, "one, two") {
		t.Errorf("the run knows no skills: %s", out)
	}
	if _, err := os.Stat(cache); err == nil {
		t.Error("the run made an index")
	}
}
