package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/settings"
	"metier/skillmd"
	"metier/source/local"
	"metier/source/sourcetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*local.Options{
		"defaults":        nil,
		"links in bounds": {Symlinks: settings.SymlinksInBounds},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T, tree fstest.MapFS) metier.Source {
				root := t.TempDir()
				for path, f := range tree {
					put(t, root, path, string(f.Data))
				}
				return open(t, root, o)
			})
		})
	}
}

func put(t *testing.T, root, path, content string) string {
	t.Helper()
	full := filepath.Join(root, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return full
}

func skill(t *testing.T, root, path string) string {
	t.Helper()
	return filepath.Dir(put(t, root, path+"/SKILL.md", sourcetest.Skill(filepath.Base(path), "does "+path)))
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		if runtime.GOOS == "windows" {
			testenv.Skip(t, fmt.Sprintf("symlinks need a privilege here: %v", err))
		}
		t.Fatal(err)
	}
}

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		testenv.Skip(t, "this system has no mkfifo")
	}
	if out, err := exec.Command(mkfifo, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func open(t *testing.T, root string, o *local.Options) *local.Source {
	t.Helper()
	s, err := local.New(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// base returns a resolved folder for one test.
func base(t *testing.T) string {
	t.Helper()
	dir, err := confine.Resolve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// outcome is a listing, with one line per entry.
func outcome(t *testing.T, s metier.Source) []string {
	t.Helper()
	done := make(chan []string)
	go func() {
		defer close(done)
		lines := []string{}
		for h, err := range s.List(t.Context()) {
			if err != nil {
				lines = append(lines, "error "+metier.CodeOf(err))
				break
			}
			line := h.Path
			if h.Broken {
				line += " unusable"
			}
			if h.Escaped {
				line += " escaped"
			}
			lines = append(lines, strings.Join(append([]string{line}, codes(h.Diagnostics)...), " "))
		}
		done <- lines
	}()
	select {
	case lines := <-done:
		return lines
	case <-time.After(60 * time.Second): // far longer than any real listing: it hangs
		t.Fatal("the listing hangs")
		return nil
	}
}

func codes(list []metier.Diagnostic) (out []string) {
	for _, d := range list {
		out = append(out, d.Code)
	}
	return out
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, lines...), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// req: A-173
func TestScanModes(t *testing.T) {
	t.Parallel()
	root := base(t)
	skill(t, root, "a")
	skill(t, root, "a/part")
	skill(t, root, "g/b")
	skill(t, root, "g/h/c")
	skill(t, root, ".claude/d")
	for _, name := range []string{".git", ".github", ".hub", ".archive", "node_modules"} {
		skill(t, root, name+"/x")
	}
	want(t, outcome(t, open(t, root, nil)), ".claude/d", "a", "g/b", "g/h/c")
	want(t, outcome(t, open(t, root, &local.Options{Scan: settings.ScanGrouped})), ".claude/d", "a", "g/b", "g/h/c")
	want(t, outcome(t, open(t, root, &local.Options{Scan: settings.ScanChildren})), "a")
	want(t, outcome(t, open(t, filepath.Join(root, "a"), &local.Options{Scan: settings.ScanChildren})), ".")
	want(t, outcome(t, open(t, root, &local.Options{Skip: []string{"g", "node_modules"}})),
		".archive/x", ".claude/d", ".git/x", ".github/x", ".hub/x", "a")
	want(t, outcome(t, open(t, root, &local.Options{MaxDepth: 2})), ".claude/d", "a", "g/b", "g/h unusable max-depth-exceeded")
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	root := base(t)
	put(t, root, "lower/skill.md", sourcetest.Skill("lower", "d"))
	put(t, root, "mixed/Skill.md", sourcetest.Skill("mixed", "d"))
	skill(t, root, "upper")
	want(t, outcome(t, open(t, root, nil)), "lower unusable skill-file-name", "mixed unusable skill-file-name", "upper")
	s := open(t, root, &local.Options{FileNames: settings.FileNamesLower})
	want(t, outcome(t, s), "lower", "mixed unusable skill-file-name", "upper")
	b := sourcetest.Open(t, s, "lower")
	if b.Head().FileName != "skill.md" {
		t.Errorf("FileName = %q", b.Head().FileName)
	}
	m, err := b.Manifest(t.Context())
	if err != nil || len(m.Files) != 1 || m.Files[0].Path != "skill.md" {
		t.Errorf("Manifest = %+v, %v", m, err)
	}
}

func TestLimitsCutTheSamePlaceAndSaySo(t *testing.T) {
	t.Parallel()
	root := base(t)
	for i := range 30 {
		skill(t, root, fmt.Sprintf("s%02d", (i*7)%30))
	}
	o := &local.Options{MaxDirs: 11} // the root and ten folders
	lines := []string{". unusable scan-limit-exceeded"}
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("s%02d", i))
	}
	for range 5 {
		want(t, outcome(t, open(t, root, o)), lines...)
	}
	if b := sourcetest.Open(t, open(t, root, o), "s29"); b.Head().Front.Name != "s29" {
		t.Error("what the listing cut cannot be opened")
	}
}

func TestDeepTree(t *testing.T) {
	t.Parallel()
	root := base(t)
	deep := strings.Repeat("d/", 300) + "s"
	skill(t, root, deep)
	want(t, outcome(t, open(t, root, nil)), strings.Repeat("d/", 11)+"d unusable max-depth-exceeded")
	want(t, outcome(t, open(t, root, &local.Options{MaxDepth: 400})), deep)
}

func TestMissingRoot(t *testing.T) {
	t.Parallel()
	dir := base(t)
	gone := filepath.Join(dir, "gone")
	_, err := local.New(gone, nil)
	if metier.KindOf(err) != metier.NotFound || metier.CodeOf(err) != "unresolvable_skill_scan_path" || !strings.Contains(err.Error(), "gone") {
		t.Errorf("missing: %v", err)
	}
	if e, ok := errors.AsType[*metier.Error](err); !ok || e.Hint == "" {
		t.Errorf("no way out in %v", err)
	}
	if _, err := local.New(put(t, dir, "file", "x"), nil); metier.KindOf(err) != metier.Invalid {
		t.Errorf("a file: %v", err)
	}
	s := open(t, gone, &local.Options{Optional: true})
	want(t, outcome(t, s))
	if _, err := s.Open(t.Context(), "a"); metier.KindOf(err) != metier.NotFound {
		t.Errorf("Open in nothing: %v", err)
	}
	skill(t, gone, "a")
	want(t, outcome(t, s), "a")
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	want(t, outcome(t, s))

	// A default root that is not a folder is reported, and does not stop the listing of others.
	put(t, dir, "a-file", "x")
	want(t, outcome(t, open(t, filepath.Join(dir, "a-file"), &local.Options{Optional: true})), ". unusable skills-root-not-folder")
	link(t, "round", filepath.Join(dir, "round"))
	want(t, outcome(t, open(t, filepath.Join(dir, "round"), &local.Options{Optional: true})), ". unusable unresolvable-skill-scan-path")

	root := filepath.Join(dir, "root")
	skill(t, root, "a")
	fixed := open(t, root, nil)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	want(t, outcome(t, fixed), "error unresolvable_skill_scan_path")
}

func TestRootSwappedForALink(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "root/a")
	skill(t, dir, "evil/b")
	s := open(t, filepath.Join(dir, "root"), &local.Options{Symlinks: settings.SymlinksInBounds})
	if err := os.Rename(filepath.Join(dir, "root"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	link(t, "evil", filepath.Join(dir, "root"))
	want(t, outcome(t, s), "error skill_scan_outside_root")
}

func TestWithin(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "ws/skills/a")
	skill(t, dir, "out/b")
	link(t, "skills", filepath.Join(dir, "ws", "in"))
	link(t, "../out", filepath.Join(dir, "ws", "leaves"))
	ws := filepath.Join(dir, "ws")
	for path, ok := range map[string]bool{"ws/skills": true, "ws/in": true, "ws": true, "out": false, "ws/leaves": false, ".": false} {
		_, err := local.New(filepath.Join(dir, path), &local.Options{Within: ws})
		if ok && err != nil || !ok && metier.KindOf(err) != metier.Denied {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// req: A-173
func TestLinkedSkills(t *testing.T) {
	t.Parallel()
	dir := base(t)
	root := filepath.Join(dir, "root")
	skill(t, root, "real")
	skill(t, root, "group/inner")
	skill(t, dir, "extra/shared")
	skill(t, dir, "outside/evil")
	put(t, dir, "outside/SKILL.md", sourcetest.Skill("evil", "d"))
	file := put(t, root, "text", "x")
	link(t, "real", filepath.Join(root, "again"))
	link(t, filepath.Join(dir, "extra/shared"), filepath.Join(root, "shared"))
	link(t, filepath.Join(dir, "extra"), filepath.Join(root, "z-extra"))
	link(t, "../outside/evil", filepath.Join(root, "leaves"))
	link(t, "nowhere", filepath.Join(root, "dangling"))
	link(t, "loop", filepath.Join(root, "loop"))
	link(t, "..", filepath.Join(root, "group/up"))
	link(t, file, filepath.Join(root, "to-file"))
	link(t, "../../outside/SKILL.md", filepath.Join(root, "file-leaves/SKILL.md"))
	if err := os.MkdirAll(filepath.Join(root, "file-in"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "../real/SKILL.md", filepath.Join(root, "file-in/SKILL.md"))
	link(t, "nowhere", filepath.Join(root, "file-dead/SKILL.md"))

	in := &local.Options{Symlinks: settings.SymlinksInBounds, AllowedRoots: []string{filepath.Join(dir, "extra"), filepath.Join(dir, "not-there")}}
	want(t, outcome(t, open(t, root, in)),
		"dangling unusable unresolvable-skill-scan-path",
		"file-dead unusable unresolvable-skill-path",
		"file-in",
		"file-leaves unusable escaped skill-outside-root",
		"group/inner",
		"group/up unusable symlink-cycle",
		"leaves unusable escaped skill-scan-outside-root",
		"loop unusable unresolvable-skill-scan-path",
		"real skill-link-duplicate",
		"shared")
	// Without the allowed root, those links leave too; no result contains a path
	// outside.
	s := open(t, root, &local.Options{Symlinks: settings.SymlinksInBounds})
	for _, h := range sourcetest.List(t, s) {
		if (h.Path == "shared" || h.Path == "z-extra") && !h.Escaped {
			t.Errorf("%s did not escape: %+v", h.Path, h)
		}
		for _, d := range h.Diagnostics {
			if !strings.HasPrefix(d.Path, root) || strings.Contains(d.Detail, "outside/") || strings.Contains(d.Detail, "extra") {
				t.Errorf("%s: diagnostic leaves the root: %+v", h.Path, d)
			}
		}
	}
	want(t, outcome(t, open(t, root, nil)),
		"again unusable skill-symlink-ignored",
		"file-dead unusable skill-symlink-ignored",
		"file-in unusable skill-symlink-ignored",
		"file-leaves unusable skill-symlink-ignored",
		"group/inner",
		"group/up unusable skill-symlink-ignored",
		"leaves unusable skill-symlink-ignored",
		"real",
		"shared unusable skill-symlink-ignored",
		"z-extra unusable skill-symlink-ignored")

	s = open(t, root, in)
	for path, target := range map[string]string{"shared": "extra/shared", "again": "root/real"} {
		b := sourcetest.Open(t, s, path)
		if h := b.Head(); h.Path != path || h.Location != filepath.Join(dir, target, "SKILL.md") {
			t.Errorf("Head = %+v", h)
		}
		if m, err := b.Manifest(t.Context()); err != nil || len(m.Files) != 1 {
			t.Errorf("%s: %+v, %v", path, m, err)
		}
	}
	b := sourcetest.Open(t, s, "file-in")
	if m, err := b.Manifest(t.Context()); err != nil || len(m.Files) != 1 || m.Files[0].Location != filepath.Join(root, "real", "SKILL.md") {
		t.Errorf("file-in: %+v, %v", m, err)
	}
	if _, err := s.Open(t.Context(), "leaves"); metier.KindOf(err) != metier.Denied {
		t.Errorf("Open(leaves) = %v", err)
	}
	if _, err := open(t, root, nil).Open(t.Context(), "again"); metier.KindOf(err) != metier.Denied {
		t.Errorf("Open(again) without links = %v", err)
	}
}

// A folder that links of the root may lead to provides no files to a skill, not
// even one with the same path.
//
// req: A-037, C-034, C-085
func TestManifest_FilesAreThoseOfTheSkillsFolder(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "root/greet")
	link(t, put(t, dir, "extra/greet/note.md", "x"), filepath.Join(dir, "root/greet/note.md"))
	s := open(t, filepath.Join(dir, "root"), &local.Options{Symlinks: settings.SymlinksInBounds, AllowedRoots: []string{filepath.Join(dir, "extra")}})
	m, err := sourcetest.Open(t, s, "greet").Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Files {
		got = append(got, f.Path)
	}
	for _, d := range m.Diagnostics {
		got = append(got, d.Code)
	}
	want(t, got, "SKILL.md", "skill-resource-outside-root")
}

// A file that was swapped for a link is opened only if the link stays in the skill's folder, also
// where links may lead to a folder with the same path.
//
// req: A-053
func TestOpen_SwappedForALinkToAnAllowedRoot(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "root/greet")
	note := put(t, dir, "root/greet/note.md", "x")
	target := put(t, dir, "extra/greet/note.md", "canary")
	s := open(t, filepath.Join(dir, "root"), &local.Options{Symlinks: settings.SymlinksInBounds, AllowedRoots: []string{filepath.Join(dir, "extra")}})
	b := sourcetest.Open(t, s, "greet")
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	link(t, target, note)
	_, err := b.Open(t.Context(), "note.md")
	if d := cmp.Diff("resource_outside_root", metier.CodeOf(err)); d != "" {
		t.Errorf("code (-want +got):\n%s", d)
	}
}

// Each listed file can be opened. Folders that are not part of a skill are left out and reported, in
// any case and as links.
//
// req: A-043
func TestManifest_ListsWhatCanBeOpened(t *testing.T) {
	t.Parallel()
	dir := base(t)
	greet := skill(t, dir, "root/greet")
	for _, name := range []string{"notes/a.md", "node_modules/b.js", ".GitHub/c.yml", ".git/config"} {
		put(t, greet, name, "x")
	}
	for name, to := range map[string]string{".archive": "notes", "settings": ".git/config", "repository": ".git", "module": "node_modules", "main": "node_modules/b.js", "workflow": ".GitHub/c.yml", "again.md": "notes/a.md"} {
		link(t, filepath.FromSlash(to), filepath.Join(greet, name))
	}
	b := sourcetest.Open(t, open(t, filepath.Join(dir, "root"), &local.Options{Symlinks: settings.SymlinksInBounds}), "greet")
	m, err := b.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got, left []string
	for _, f := range m.Files {
		r, err := b.Open(t.Context(), f.Path)
		if err != nil {
			t.Errorf("%s is listed: %v", f.Path, err)
			continue
		}
		r.Close()
		got = append(got, f.Path)
	}
	for _, d := range m.Diagnostics {
		left = append(left, d.Code+" "+filepath.Base(d.Path))
	}
	if d := cmp.Diff([]string{"SKILL.md", "again.md", "notes/a.md"}, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	const skipped, outside = "resource-folder-skipped ", "skill-resource-outside-root "
	want := []string{skipped + ".GitHub", skipped + ".archive", skipped + ".git", outside + "main", outside + "module", skipped + "node_modules",
		outside + "repository", outside + "settings", outside + "workflow"}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("left out (-want +got):\n%s", d)
	}
	for _, name := range []string{"settings", "repository/config", "module/b.js", "main", "workflow"} {
		_, err := b.Open(t.Context(), name)
		if d := cmp.Diff("resource_outside_root", metier.CodeOf(err)); d != "" {
			t.Errorf("%s: code (-want +got):\n%s", name, d)
		}
	}
}

// The metadata of a repository may contain a password. No SKILL.md and no skill is a link to it.
//
// req
func TestList_RefusesLinksToGit(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "good")
	put(t, dir, ".git/config", "[remote]\nurl = https://secret@example.com\n")
	skill(t, dir, ".git/inner")
	link(t, filepath.Join("..", ".git", "config"), filepath.Join(dir, "bad/SKILL.md"))
	link(t, filepath.Join(".git", "inner"), filepath.Join(dir, "linked"))
	s := open(t, dir, &local.Options{Symlinks: settings.SymlinksInBounds})
	want(t, outcome(t, s), "bad unusable escaped skill-outside-root", "good", "linked unusable escaped skill-scan-outside-root")
	for _, place := range []string{"bad", "linked"} {
		b, err := s.Open(t.Context(), place)
		if err == nil {
			_, err = b.Open(t.Context(), "SKILL.md")
			b.Close()
		}
		if d := cmp.Diff("resource_outside_root", metier.CodeOf(err)); d != "" {
			t.Errorf("%s: code (-want +got):\n%s", place, d)
		}
	}
}

// Files that are too large to be read at once are described like small ones.
//
// req
func TestManifest_DescribesALargeScript(t *testing.T) {
	t.Parallel()
	dir := base(t)
	skill(t, dir, "root/greet")
	text := "#!/usr/bin/env node\n" + strings.Repeat("// One line of it.\n", 100_000)
	if err := os.Chmod(put(t, dir, "root/greet/scripts/run", text), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := sourcetest.Open(t, open(t, filepath.Join(dir, "root"), nil), "greet").Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []metier.File{{Path: "scripts/run", Size: int64(len(text)), Digest: metier.Digest(digest.Bytes([]byte(text))), Text: true, Exec: runtime.GOOS != "windows",
		Shebang: "#!/usr/bin/env node", Location: filepath.Join(dir, "root/greet/scripts/run")}}
	if d := cmp.Diff(want, m.Files[1:]); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// With an allowed link to a folder above the root, the root's skills must not
// be listed twice or in a loop.
func TestLinkAboveTheRoot(t *testing.T) {
	t.Parallel()
	ws := base(t)
	skill(t, ws, ".claude/skills/own")
	skill(t, ws, "skills/shared")
	link(t, "../..", filepath.Join(ws, ".claude/skills/ws"))
	s := open(t, filepath.Join(ws, ".claude/skills"), &local.Options{Symlinks: settings.SymlinksInBounds, AllowedRoots: []string{ws}})
	want(t, outcome(t, s), "own", "ws/skills/shared")
}

func TestHostileSkillFiles(t *testing.T) {
	t.Parallel()
	root := base(t)
	skill(t, root, "good")
	fifo(t, filepath.Join(root, "fifo/SKILL.md"))
	fifo(t, filepath.Join(root, "not-a-folder"))
	put(t, root, "folder/SKILL.md/x", "")
	if err := os.MkdirAll(filepath.Join(root, "big"), 0o755); err != nil {
		t.Fatal(err)
	}
	big := put(t, root, "big/SKILL.md", sourcetest.Skill("big", "1 TiB"))
	if err := os.Truncate(big, 1<<40); err != nil {
		testenv.Skip(t, fmt.Sprintf("no sparse file of 1 TiB here: %v", err))
	}
	link(t, "/dev/zero", filepath.Join(root, "device/SKILL.md"))
	lines := []string{"big", "device unusable escaped skill-outside-root", "fifo unusable unreadable-skill", "folder unusable unreadable-skill", "good"}
	want(t, outcome(t, open(t, root, &local.Options{Symlinks: settings.SymlinksInBounds})), lines...)

	m, err := sourcetest.Open(t, open(t, root, nil), "big").Manifest(t.Context())
	if err != nil || len(m.Files) != 0 || !slices.Equal(codes(m.Diagnostics), []string{"resource-too-large"}) {
		t.Errorf("manifest of 1 TiB: %+v, %v", m, err)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	root := base(t)
	skill(t, root, "good")
	chmod(t, put(t, root, "locked/SKILL.md", "x"), 0)
	chmod(t, skill(t, root, "closed"), 0)
	skill(t, root, "group/x")
	chmod(t, filepath.Join(root, "group"), 0o300) // may be entered, not listed
	want(t, outcome(t, open(t, root, nil)),
		"closed unusable unreadable-directory", "good", "group unusable unreadable-directory", "locked unusable unreadable-skill")
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(path, 0o755) })
}

// req
func TestManifestResources(t *testing.T) {
	t.Parallel()
	dir := base(t)
	root := filepath.Join(dir, "root")
	s := skill(t, root, "s")
	put(t, s, "scripts/run.sh", "#!/bin/bash\r\necho\r\n")
	put(t, s, "references/a.md", "a")
	put(t, root, "common/shared.md", "shared")
	put(t, dir, "outside/secret", "secret")
	link(t, "../common/shared.md", filepath.Join(s, "shared.md"))
	link(t, "../common", filepath.Join(s, "more"))
	link(t, "references/a.md", filepath.Join(s, "again.md"))
	link(t, "references", filepath.Join(s, "refs"))
	link(t, "..", filepath.Join(s, "references/up"))
	link(t, "../..", filepath.Join(s, "references/root"))
	link(t, "../../outside/secret", filepath.Join(s, "leak"))
	link(t, filepath.Join(dir, "outside"), filepath.Join(s, "leaks"))
	link(t, "nowhere", filepath.Join(s, "dead"))
	skill(t, s, "node_modules/x")
	fifo(t, filepath.Join(s, "pipe"))
	src := open(t, root, &local.Options{Symlinks: settings.SymlinksInBounds})
	b := sourcetest.Open(t, src, "s")
	m, err := b.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Files {
		got = append(got, f.Path+" "+strings.TrimPrefix(filepath.ToSlash(f.Location), filepath.ToSlash(root)+"/"))
	}
	want(t, got, "SKILL.md s/SKILL.md", "again.md s/references/a.md", "references/a.md s/references/a.md",
		"scripts/run.sh s/scripts/run.sh")
	got = nil
	for _, d := range m.Diagnostics {
		got = append(got, strings.TrimPrefix(filepath.ToSlash(d.Path), filepath.ToSlash(s)+"/")+" "+d.Code)
		if strings.Contains(d.Detail, "outside/") {
			t.Errorf("a diagnostic names a path outside: %+v", d)
		}
	}
	want(t, got, "dead unresolvable-skill-resource", "leak skill-resource-outside-root", "leaks skill-resource-outside-root",
		"more skill-resource-outside-root", "node_modules resource-folder-skipped", "pipe unreadable-skill-resource", "references/root skill-resource-outside-root",
		"references/up symlink-cycle", "refs symlink-cycle", "shared.md skill-resource-outside-root")
	for path, kind := range map[string]metier.Kind{"leak": metier.Denied, "leaks/secret": metier.Denied, "pipe": metier.Invalid, "dead": metier.NotFound, "more": metier.Denied, "shared.md": metier.Denied, "refs": metier.Invalid} {
		if f, err := b.Open(t.Context(), path); metier.KindOf(err) != kind {
			t.Errorf("Open(%s) = %v, %v; want %s", path, f, err, kind)
		}
	}
	for _, f := range m.Files {
		r, err := b.Open(t.Context(), f.Path)
		if err != nil {
			t.Errorf("Open(%s): %v", f.Path, err)
			continue
		}
		r.Close()
	}
	if f := m.Files[3]; f.Shebang != "#!/bin/bash" {
		t.Errorf("shebang %q", f.Shebang)
	}
}

func TestExecBitIsInTheTree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "Windows has no execute bit")
	}
	root := base(t)
	script := put(t, skill(t, root, "s"), "scripts/a", "x")
	b := sourcetest.Open(t, open(t, root, nil), "s")
	before, err := b.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chmod(t, script, 0o755)
	after, err := b.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before.Files[1].Exec || !after.Files[1].Exec || before.Tree == after.Tree {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// req: A-045
func TestResourceLimits(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "s")
	for i := range 2000 {
		put(t, s, fmt.Sprintf("A/%04d", i), "x")
	}
	manifest := func(o *local.Options) metier.Manifest {
		t.Helper()
		m, err := sourcetest.Open(t, open(t, root, o), "s").Manifest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := manifest(nil) // 2,001 files
	if len(m.Files) != 2000 || m.Files[len(m.Files)-1].Path != "SKILL.md" || m.Files[1998].Path != "A/1998" {
		t.Errorf("%d files, last %+v", len(m.Files), m.Files[len(m.Files)-2:])
	}
	want(t, codes(m.Diagnostics), "resource-file-limit-exceeded")
	if m := manifest(&local.Options{MaxResourceFiles: 2001}); len(m.Files) != 2001 || len(m.Diagnostics) != 0 {
		t.Errorf("%d files, %v", len(m.Files), codes(m.Diagnostics))
	}
	put(t, s, "A/b/c/deep", "x")
	at := func(m metier.Manifest) []string {
		var out []string
		for _, d := range m.Diagnostics {
			out = append(out, strings.TrimPrefix(filepath.ToSlash(d.Path), filepath.ToSlash(s)+"/")+" "+d.Code)
		}
		return out
	}
	m = manifest(&local.Options{MaxResourceDepth: 2, MaxResourceFiles: 9999})
	want(t, at(m), "A/b/c max-depth-exceeded")
	m = manifest(&local.Options{MaxResourceDirs: 2, MaxResourceFiles: 9999})
	want(t, at(m), "A/b scan-limit-exceeded")
	// The defaults: folders eight deep, and a thousand of them.
	put(t, s, "1/2/3/4/5/6/7/8/last", "x")
	put(t, s, "1/2/3/4/5/6/7/8/9/deep", "x")
	m = manifest(&local.Options{MaxResourceFiles: 9999})
	want(t, at(m), "1/2/3/4/5/6/7/8/9 max-depth-exceeded")
	if !slices.ContainsFunc(m.Files, func(f metier.File) bool { return f.Path == "1/2/3/4/5/6/7/8/last" }) {
		t.Error("the eighth folder is not read")
	}
	for i := range 988 { // the skill's folder, A with two below it and eight of 1 are there already
		put(t, s, fmt.Sprintf("1/%03d/x", i), "x")
	}
	want(t, at(manifest(&local.Options{MaxResourceFiles: 9999})), "1/2/3/4/5/6/7/8/9 max-depth-exceeded")
	put(t, s, "1/2/3/4/5/6/7/one-more/x", "x")
	want(t, at(manifest(&local.Options{MaxResourceFiles: 9999})), "1/2/3/4/5/6/7/8/9 max-depth-exceeded", "1/2/3/4/5/6/7/one-more scan-limit-exceeded")
}

// req: A-045
func TestByteLimits(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "s")
	put(t, s, "a", strings.Repeat("a", 100))
	put(t, s, "big", strings.Repeat("b", 3<<20))
	put(t, s, "c", strings.Repeat("c", 100))
	for name, tc := range map[string]struct {
		o     local.Options
		files string
		codes []string
	}{
		"none":            {local.Options{}, "SKILL.md a big c", nil},
		"file":            {local.Options{MaxFileBytes: 2 << 20}, "SKILL.md a c", []string{"resource-too-large"}},
		"small file":      {local.Options{MaxFileBytes: 99}, "SKILL.md", []string{"resource-too-large", "resource-too-large", "resource-too-large"}},
		"skill":           {local.Options{MaxSkillBytes: 3 << 20}, "SKILL.md a", []string{"resource-too-large"}},
		"skill, all read": {local.Options{MaxSkillBytes: 3<<20 + 190}, "SKILL.md a big", []string{"resource-too-large"}},
	} {
		m, err := sourcetest.Open(t, open(t, root, &tc.o), "s").Manifest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range m.Files {
			got = append(got, f.Path)
		}
		if strings.Join(got, " ") != tc.files {
			t.Errorf("%s: files %v, want %s", name, got, tc.files)
		}
		if diff := cmp.Diff(tc.codes, codes(m.Diagnostics)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestHardLinksAreRefusedWhenAsked(t *testing.T) {
	t.Parallel()
	dir := base(t)
	s := skill(t, dir, "root/s")
	if err := os.MkdirAll(filepath.Join(dir, "root/t"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{put(t, dir, "secret", "x"): filepath.Join(s, "hard"), put(t, dir, "other", sourcetest.Skill("t", "d")): filepath.Join(dir, "root/t/SKILL.md")} {
		if err := os.Link(from, to); err != nil {
			testenv.Skip(t, fmt.Sprintf("no hard links here: %v", err))
		}
	}
	o := &local.Options{RefuseHardLinks: true}
	want(t, outcome(t, open(t, filepath.Join(dir, "root"), nil)), "s", "t")
	src := open(t, filepath.Join(dir, "root"), o)
	want(t, outcome(t, src), "s", "t unusable skill-outside-root")
	b := sourcetest.Open(t, src, "s")
	m, err := b.Manifest(t.Context())
	if err != nil || len(m.Files) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	want(t, codes(m.Diagnostics), "skill-resource-outside-root")
	if _, err := b.Open(t.Context(), "hard"); metier.KindOf(err) != metier.Denied {
		t.Errorf("Open = %v", err)
	}
}

// A bundle keeps referring to the folder that it was opened on.
func TestFolderReplacedAfterOpen(t *testing.T) {
	t.Parallel()
	dir := base(t)
	root := filepath.Join(dir, "root")
	s := skill(t, root, "s")
	put(t, s, "a", "old")
	link(t, "a", filepath.Join(s, "l"))
	put(t, dir, "evil/a", "new")
	b := sourcetest.Open(t, open(t, root, &local.Options{Symlinks: settings.SymlinksInBounds}), "s")
	if err := os.Rename(s, filepath.Join(dir, "gone")); err != nil {
		testenv.Skip(t, fmt.Sprintf("an open folder cannot be renamed here: %v", err))
	}
	link(t, filepath.Join(dir, "evil"), s)
	f, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 9)
	if n, _ := f.Read(buf); string(buf[:n]) != "old" {
		t.Errorf("read %q", buf[:n])
	}
	if _, err := b.Open(t.Context(), "l"); err == nil {
		t.Error("a link was followed in the replaced folder")
	}
}

// req: C-032
func TestReferencesAreNotOpenedUnlessAsked(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "s")
	pipes := []string{filepath.Join(s, "references", "r.md"), filepath.Join(s, "assets", "a"), filepath.Join(s, "scripts", "run.sh")}
	opened := make(chan string, len(pipes))
	for _, p := range pipes {
		fifo(t, p)
		// Opening a FIFO for writing waits until it is opened for reading.
		go func() {
			if f, err := os.OpenFile(p, os.O_WRONLY, 0); err == nil {
				opened <- filepath.Base(p)
				f.Close()
			}
		}()
	}
	src := open(t, root, nil)
	want(t, outcome(t, src), "s")
	b := sourcetest.Open(t, src, "s")
	f, err := b.Open(t.Context(), "SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(opened) != 0 {
		t.Errorf("%s was opened by a listing or an activation", <-opened)
	}
	for _, p := range pipes { // and the trap works: a real open is seen
		r, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	for range pipes {
		<-opened
	}
}

// req: A-035
func TestAddedResourceIsFoundByTheNextRun(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "s")
	run := func() []string {
		t.Helper()
		mounts := []metier.Mount{{Label: "local", Source: open(t, root, nil), Root: root}}
		snap, err := metier.Build(t.Context(), mounts, settings.Parse{}, settings.Names{}, settings.IndexRootFileYes, true)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := snap.Find("s")
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, r := range sk.Resources {
			paths = append(paths, r.Path+" "+string(r.Kind))
		}
		return paths
	}
	want(t, run(), "SKILL.md other")
	put(t, s, "references/new.md", "new")
	want(t, run(), "SKILL.md other", "references/new.md reference")
	put(t, s, "scripts/lib/deep/part.py", "pass")
	want(t, run(), "SKILL.md other", "references/new.md reference", "scripts/lib/deep/part.py script")
}

func TestHeadsHaveLocations(t *testing.T) {
	t.Parallel()
	root := base(t)
	s := skill(t, root, "g/s")
	put(t, root, "bad/SKILL.md", "---\nname: [\n---\n")
	for _, h := range sourcetest.List(t, open(t, root, nil)) {
		switch h.Path {
		case "g/s":
			if h.Location != filepath.Join(s, "SKILL.md") || h.ModTime == 0 || h.Size == 0 || h.Digest != "" {
				t.Errorf("%+v", h)
			}
		case "bad":
			if !h.Broken || h.Diagnostics[0].Path != filepath.Join(root, "bad", "SKILL.md") || h.Diagnostics[0].Severity != skillmd.Error {
				t.Errorf("%+v", h)
			}
		}
	}
}
