package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"metier"
	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/settings"
	"metier/source/local"
	"metier/source/sourcetest"
)

// Whatever is swapped for a link to the outside during listings and reads,
// their results contain no byte from outside.
func TestSwappedDuringTheScan(t *testing.T) {
	t.Parallel()
	const rounds = 150
	for _, swapped := range []string{"group", "group/s", "group/s/SKILL.md", "group/s/references", "group/s/references/r.md"} {
		for _, links := range []settings.Symlinks{settings.SymlinksIgnore, settings.SymlinksInBounds} {
			t.Run(swapped+" "+string(links), func(t *testing.T) {
				t.Parallel()
				dir := base(t)
				root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
				for where, text := range map[string]string{root: "honest", outside: "canary"} {
					put(t, where, "group/s/SKILL.md", sourcetest.Skill("s", text))
					put(t, where, "group/s/references/r.md", text)
				}
				stop := swapping(t, filepath.Join(root, filepath.FromSlash(swapped)), filepath.Join(outside, filepath.FromSlash(swapped)), filepath.Join(dir, "aside"))
				defer stop()
				s := open(t, root, &local.Options{Symlinks: links})
				canary := metier.Digest(digest.Bytes([]byte("canary")))
				seen := map[string]bool{}
				// Continue until the swap was seen, if a listing can see it.
				for i := 0; i < rounds || len(seen) < 2 && i < 100*rounds && !strings.Contains(swapped, "references"); i++ {
					met := ""
					for h, err := range s.List(t.Context()) {
						said := fmt.Sprintf("%+v %v", h, err)
						if strings.Contains(said, "canary") {
							t.Fatalf("the listing gives %s", said)
						}
						met += fmt.Sprintln(h.Path, codes(h.Diagnostics), err)
					}
					seen[met] = true
					b, err := s.Open(t.Context(), "group/s")
					if err != nil {
						continue // it was swapped
					}
					read := everything(t, b)
					if m, err := b.Manifest(t.Context()); strings.Contains(read+fmt.Sprintf("%+v", b.Head()), "canary") ||
						err == nil && slices.ContainsFunc(m.Files, func(f metier.File) bool { return f.Digest == canary }) {
						t.Fatalf("the skill gives %q, %+v, %v", read, m, err)
					}
					b.Close()
				}
				t.Logf("listings of %d kinds", len(seen))
			})
		}
	}
}

// everything reads the files of a skill as far as possible.
func everything(t *testing.T, b metier.Bundle) string {
	var all strings.Builder
	for _, name := range []string{"SKILL.md", "references/r.md"} {
		if f, err := b.Open(t.Context(), name); err == nil {
			_, _ = io.Copy(&all, f)
			f.Close()
		}
	}
	return all.String()
}

// swapping repeatedly replaces path by a link to target and removes it, until
// it is stopped.
func swapping(t *testing.T, path, target, aside string) (stop func()) {
	link(t, target, aside+".probe") // otherwise the test cannot run here
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if os.Rename(path, aside) != nil {
				continue
			}
			_ = os.Symlink(target, path)
			runtime.Gosched()
			_ = os.Remove(path)
			_ = os.Rename(aside, path)
		}
	}()
	return func() { cancel(); <-done }
}

// inMemory returns a folder for a test that creates many files, in memory if
// the system has such a folder.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "metier-test-")
	if err != nil {
		return base(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// manyFolders lists ten thousand skills among a hundred thousand folders
// completely. With a limit of one folder less it lists the first ones, with a
// diagnostic about the rest.
func manyFolders(t *testing.T) {
	root := inMemory(t)
	const all, skills = 100_000, 10_000
	for i := range all {
		dir := filepath.Join(root, fmt.Sprintf("f%06d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if i >= skills {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(sourcetest.Skill(filepath.Base(dir), "d")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set := defaults(t)
	snap := built(t, root, set)
	if loaded := loadedOf(snap); loaded != skills || len(snap.All()) != skills || len(snap.Diagnostics()) != 0 {
		t.Errorf("within the limit %d of %d entries are loaded, want %d: %+v", loaded, len(snap.All()), skills, snap.Diagnostics())
	}
	set.Discover.MaxDirs = all // with the root it is one too many
	snap = built(t, root, set)
	if d := snap.Diagnostics(); loadedOf(snap) != skills || len(snap.All()) != skills+1 || len(d) != 1 || d[0].Code != "scan-limit-exceeded" ||
		d[0].Detail != "at least 1 folders were not read: the limit is 100000" {
		t.Errorf("at the limit %d of %d entries are loaded, want %d and one that tells of it: %+v", loadedOf(snap), len(snap.All()), skills, d)
	}
}

func loadedOf(snap *metier.Snapshot) (n int) {
	for _, sk := range snap.All() {
		if sk.State == metier.Loaded {
			n++
		}
	}
	return n
}

// deeperThanAnyPath descends ten thousand folders if the operator allows that.
// What is too deep for a path of the system is reported.
func deeperThanAnyPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "paths of Windows are too short to build such a tree")
	}
	root := inMemory(t)
	skill(t, root, "good")
	const step, depth = 100, 10_000
	top, next, run := filepath.Join(root, "deep"), filepath.Join(root, "next"), filepath.Join(slices.Repeat([]string{"d"}, step)...)
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	for range depth / step {
		if err := errors.Join(os.MkdirAll(filepath.Join(next, filepath.Dir(run)), 0o755), os.Rename(top, filepath.Join(next, run)), os.Rename(next, top)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // from its top, as it grew: with all its folders open at once there may be too many
		for os.Rename(filepath.Join(top, run), next) == nil && os.RemoveAll(top) == nil && os.Rename(next, top) == nil {
		}
	})
	got := outcome(t, open(t, root, nil))
	want(t, got, "deep"+strings.Repeat("/d", 11)+" unusable max-depth-exceeded", "good")
	got = outcome(t, open(t, root, &local.Options{MaxDepth: 2 * depth}))
	if len(got) != 2 || got[1] != "good" || !strings.HasPrefix(got[0], "deep/d/") || !strings.HasSuffix(got[0], " unusable unreadable-directory") && !strings.HasSuffix(got[0], " unusable unreadable-skill") {
		t.Errorf("%d lines, the first with %d bytes, ends with %q", len(got), len(got[0]), got[0][max(0, len(got[0])-60):])
	}
}

// req: A-045
func TestEachReasonForAMissingFileHasItsCode(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	dir := base(t)
	s := skill(t, dir, "root/s")
	chmod(t, put(t, s, "locked.md", "x"), 0)
	link(t, "nowhere", filepath.Join(s, "dead.md"))
	link(t, put(t, dir, "outside.md", "canary"), filepath.Join(s, "out.md"))
	put(t, s, "zz/1.md", "x")
	put(t, s, "zz/2.md", "x")
	put(t, s, "zz/3.md", "x")
	put(t, s, "closed/x.md", "x")
	chmod(t, filepath.Join(s, "closed"), 0)
	set := defaults(t)
	if set.Discover.MaxResources != 2000 {
		t.Errorf("by default %d files of a skill are indexed", set.Discover.MaxResources)
	}
	set.Discover.MaxResources = 3 // SKILL.md, locked.md and one of the three
	set.Discover.ResourceIndex = settings.ResourceIndexStart
	snap := built(t, filepath.Join(dir, "root"), set)
	var got []string
	for _, d := range snap.Diagnostics() {
		rel, err := filepath.Rel(s, d.Path)
		if err != nil || d.Severity == "advice" {
			t.Errorf("%+v: %v", d, err)
		}
		got = append(got, filepath.ToSlash(rel)+" "+d.Code)
	}
	want(t, got, ". resource-file-limit-exceeded", "closed unreadable-skill-resource-directory", "dead.md unresolvable-skill-resource", "locked.md unreadable-skill-resource", "out.md skill-resource-outside-root")
	sk, err := snap.Find("s")
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, r := range sk.Resources {
		got = append(got, r.Path)
	}
	want(t, got, "SKILL.md", "zz/1.md")
}

// req: A-044
func TestLinkToTheParentEndsWithEachFileOnce(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "group/s")
	put(t, s, "references/r.md", "x")
	put(t, s, "references/deep/d.md", "x")
	link(t, "..", filepath.Join(s, "references", "up"))
	link(t, "..", filepath.Join(s, "references", "deep", "up")) // not above the skill
	link(t, ".", filepath.Join(s, "references", "deep", "self"))
	link(t, "..", filepath.Join(root, "group", "up"))
	link(t, ".", filepath.Join(root, "self"))
	link(t, ".", filepath.Join(root, "group", "here"))
	put(t, root, "group/deep/er/x.md", "x")
	link(t, "../..", filepath.Join(root, "group", "deep", "er", "up")) // to group
	set := defaults(t)
	set.Discover.ResourceIndex = settings.ResourceIndexStart
	snap := built(t, root, set)
	want(t, standings(snap), "group/deep/er/up refused symlink-cycle", "group/here refused symlink-cycle", "group/s loaded symlink-cycle symlink-cycle symlink-cycle", "group/up refused symlink-cycle", "self refused symlink-cycle")
	sk, err := snap.Find("s")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range sk.Resources {
		got = append(got, r.Path)
	}
	want(t, got, "SKILL.md", "references/deep/d.md", "references/r.md")
}

// Files that are not part of a skill are not read as resources: the folder of a
// clone contains the key that it was cloned with.
func TestFilesOfSkippedFoldersAreNotGivenOut(t *testing.T) {
	t.Parallel()
	root := base(t)
	skill(t, root, "x")
	for _, name := range []string{"x/.git/config", "x/.GIT/config", "x/sub/node_modules/p/a.js", "x/git/config", "x/.gitignore", "x/sub/.github"} {
		put(t, root, name, "text")
	}
	b, err := open(t, root, nil).Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, good := range map[string]bool{".git/config": false, ".GIT/config": false, "sub/node_modules/p/a.js": false, "./.git/config": false, "git/config": true, ".gitignore": true, "sub/.github": true} {
		f, err := b.Open(t.Context(), name)
		if err == nil {
			f.Close()
		}
		if (err == nil) != good || !good && name[0] != '.' && metier.CodeOf(err) != "resource_not_found" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
