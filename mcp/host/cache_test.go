package host_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"metier"
	"metier/mcp/host"
	"metier/mcp/host/hosttest"
	"metier/policy"
	"metier/source/local"
)

// cached returns the files below a folder, by path, in order.
func cached(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}

// keeping opens a server's skills with a cache.
func keeping(t *testing.T, dir string, srv host.Server, at time.Time) (*host.Host, metier.Mount) {
	t.Helper()
	srv.Skills = true
	h := open(t, &host.Options{Cache: dir, Now: func() time.Time { return at }}, srv)
	m := host.Mount(srv.Label, h.Source(srv.Label))
	build(t, m)
	return h, m
}

func TestFilesAreKeptAndHashedAtEveryRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	k := with(func(*hosttest.Skill) {})
	far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{k}})
	srv := overHTTP(t, "far", far)
	_, m := keeping(t, dir, srv, time.Now())
	if got := cached(t, dir); len(got) != 0 || reads(far) != 0 {
		t.Fatalf("no-prefetch: %v", got)
	}
	get := func(m metier.Mount, want int) {
		t.Helper()
		for _, f := range []string{"SKILL.md", "references/a.md"} {
			if got, err := fetch(t, m.Source, "skill/deploy", f); err != nil || got != k.Files[f] {
				t.Errorf("%s: %q %v", f, got, err)
			}
		}
		if got := reads(far); got != want {
			t.Errorf("%d files were fetched, want %d", got, want)
		}
	}
	get(m, 2)
	get(m, 2)
	files := cached(t, dir)
	if len(files) != 2 || !strings.HasPrefix(strings.TrimPrefix(files[0], dir+string(filepath.Separator)), "far-") {
		t.Fatalf("cache-apart: %v", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
		if info, err := os.Stat(filepath.Dir(f)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", filepath.Dir(f), info.Mode(), err)
		}
	}
	// Each way in which the files on disk can differ: the file is fetched again, and
	// this is reported.
	want := 2
	for name, spoil := range map[string]func(p string) error{
		"another byte": func(p string) error {
			b, err := os.ReadFile(p)
			if err == nil {
				b[0] ^= 1
				err = os.WriteFile(p, b, 0o600)
			}
			return err
		},
		"longer": func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 5000)), 0o600) },
		"empty":  func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a folder": func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Mkdir(p, 0o700)
		},
		"a link": func(p string) error {
			to := filepath.Join(t.TempDir(), "same") // even to the same bytes
			if err := os.Rename(p, to); err != nil {
				return err
			}
			return os.Symlink(to, p)
		},
	} {
		h, again := keeping(t, dir, srv, time.Now())
		get(again, want) // a new run takes the current file
		for _, f := range files {
			if err := spoil(f); err != nil {
				t.Fatal(err)
			}
		}
		want += 2
		get(again, want)
		if got := codes(h); got != "mcp-cache-altered mcp-cache-altered" {
			t.Errorf("cache-checked: %s: notes %q", name, got)
		}
		get(again, want)
	}
}

// Two servers with one address, and one label for two servers, have separate
// folders.
func TestWhatIsKeptLiesByServerAndAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := with(func(*hosttest.Skill) {})
	other := with(func(*hosttest.Skill) {})
	other.URI = "skill://team/deploy/SKILL.md"
	for i, label := range []string{"one", "two", "one"} {
		far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{k, other}})
		_, m := keeping(t, dir, overHTTP(t, label, far), time.Now())
		for _, p := range []string{"skill/deploy", "skill/team/deploy"} {
			if _, err := fetch(t, m.Source, p, "references/a.md"); err != nil {
				t.Fatal(err)
			}
		}
		if reads(far) != 2 {
			t.Errorf("identity: %d reads of server %d", reads(far), i)
		}
	}
	if got := cached(t, dir); len(got) != 6 {
		t.Errorf("identity: %v", got)
	}
}

func TestWhatCannotBeCheckedIsNotKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := hosttest.Plain("made", nil)
	made.Resources = "dynamic"
	lie := with(func(k *hosttest.Skill) { k.Served = map[string]string{"references/a.md": "h0nest"} })
	front := hosttest.Plain("front", nil)
	front.Front["description"] = "Other."
	far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{made, lie, front}})
	_, m := keeping(t, dir, overHTTP(t, "far", far), time.Now())
	for range 2 {
		if _, err := fetch(t, m.Source, "skill/made", "SKILL.md"); err != nil {
			t.Error(err)
		}
		if _, err := fetch(t, m.Source, "skill/deploy", "references/a.md"); metier.CodeOf(err) != "mcp_digest_mismatch" {
			t.Error(err)
		}
		if _, err := fetch(t, m.Source, "skill/front", "SKILL.md"); metier.CodeOf(err) != "mcp_frontmatter_mismatch" {
			t.Error(err)
		}
	}
	if got := cached(t, dir); len(got) != 0 || reads(far) != 6 {
		t.Errorf("dynamic: %v, %d reads", got, reads(far))
	}
}

// Cached files are not found as local skills, and remain the server's.
func TestWhatIsKeptIsNoLocalSkill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{with(func(*hosttest.Skill) {})}})
	srv := overHTTP(t, "docs", far)
	_, m := keeping(t, dir, srv, time.Now())
	if _, err := fetch(t, m.Source, "skill/deploy", "SKILL.md"); err != nil {
		t.Fatal(err)
	}
	src, err := local.New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := build(t, metier.Mount{Label: "project", Tier: policy.Project, Root: dir, Source: src}); len(n.All()) != 0 {
		t.Errorf("cache-apart: %v", n.All())
	}
	h, m := keeping(t, dir, srv, time.Now())
	s := session(t, h, nil, m)
	o := call(t, s, "load_skill", `{"name":"mcp:docs:deploy"}`)
	if reads(far) != 1 || o.Code() != "" || !strings.Contains(o.Text(), `name="mcp:docs:deploy"`) || !strings.Contains(o.Text(), "third-party") || s.State().Active[0].SkillID != "mcp:docs:skill/deploy" {
		t.Errorf("cache-origin: %d reads, %q %s", reads(far), o.Code(), o.Text())
	}
}

func TestTheOldestIsThrownOut(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	put := func(name string, size int64, age time.Duration) string {
		p := filepath.Join(dir, "gone-0", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(p)
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Chtimes(p, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	put("unread", 10, 31*24*time.Hour)
	put("old", 40<<20, 3*time.Hour)
	fresh := put("fresh", 40<<20, time.Hour)
	far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{with(func(*hosttest.Skill) {})}})
	_, m := keeping(t, dir, overHTTP(t, "far", far), now)
	if _, err := fetch(t, m.Source, "skill/deploy", "SKILL.md"); err != nil {
		t.Fatal(err)
	}
	if got := cached(t, dir); len(got) != 2 || !slices.Contains(got, fresh) {
		t.Errorf("%v", got)
	}
}
