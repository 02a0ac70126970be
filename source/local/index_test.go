package local_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier"
	"metier/internal/testenv"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
	"metier/source/sourcetest"
)

// indexed is a root with an index folder. Its clock is ahead, so that files
// that were just written count as settled.
type indexed struct {
	t     *testing.T
	root  string
	opt   local.Options
	last  local.Scanned
	clock func() time.Time
}

func newIndexed(t *testing.T, o local.Options) *indexed {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "this system gives no time of change, so there is no index")
	}
	dir := base(t)
	x := &indexed{t: t, root: filepath.Join(dir, "root"), opt: o, clock: func() time.Time { return time.Now().Add(time.Minute) }}
	x.opt.Index = filepath.Join(dir, "cache", "index")
	x.opt.Scanned = func(s local.Scanned) { x.last = s }
	x.opt.Now = func() time.Time { return x.clock() }
	if err := os.Mkdir(x.root, 0o755); err != nil {
		t.Fatal(err)
	}
	return x
}

// heads lists with the options.
func (x *indexed) heads(o local.Options) []metier.Head {
	x.t.Helper()
	var list []metier.Head
	for h, err := range open(x.t, x.root, &o).List(x.t.Context()) {
		if err != nil {
			x.t.Fatal(err)
		}
		list = append(list, *h)
	}
	return list
}

// same lists with and without the index, and compares.
func (x *indexed) same(when string) []metier.Head {
	x.t.Helper()
	plain := x.opt
	plain.Index, plain.Scanned = "", nil
	want, got := x.heads(plain), x.heads(x.opt)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		x.t.Errorf("%s: without the index - with + :\n%s", when, d)
	}
	return got
}

// warm lists until nothing is read any more; at most unknown folders are left,
// which no index may keep.
func (x *indexed) warm(unknown int) {
	x.t.Helper()
	x.same("first")
	x.same("second")
	if x.last.Folders-x.last.Known != unknown || x.last.Unused != "" || x.last.Unsaved != nil || x.last.Known == 0 {
		x.t.Fatalf("not warm: %+v", x.last)
	}
}

func (x *indexed) file() string {
	x.t.Helper()
	list, err := filepath.Glob(filepath.Join(x.opt.Index, "*.idx"))
	if err != nil || len(list) != 1 {
		x.t.Fatal(list, err)
	}
	return list[0]
}

// odd is a tree with everything that a scan knows.
func (x *indexed) odd() {
	for _, p := range []string{"plain", "deep/er/est/one", "deep/er/two", "a-b/c", "a/z", "twice", "node_modules/no", "group/.git/no"} {
		skill(x.t, x.root, p)
	}
	for p, text := range map[string]string{
		"nofront/SKILL.md":  "# Heading\n\nFirst paragraph.\n",
		"empty/SKILL.md":    "",
		"broken/SKILL.md":   "---\nname: [\n---\n",
		"repaired/SKILL.md": "---\nname: repaired\ndescription: use when: needed\nmisc:\n  deep: [1, {a: b}, null, true]\n---\n",
		"rich/SKILL.md": "---\nname: \" rich \"\ndescription: >\n  folded\n  text\nallowed-tools: Read, Bash(git *)\nmetadata:\n  dependencies: [a, b]\n" +
			"  n: ~\nuser-invocable: false\nplatforms: [linux]\nversoin: 2\nmodel: {}\nlicense: Ünïcode\n---\nbody\n",
		"nodesc/SKILL.md":    "---\nname: nodesc\n---\n\nThe first paragraph\nof two lines.\n\nMore.\n",
		"lower/skill.md":     sourcetest.Skill("lower", "has the other name"),
		"case/Skill.md":      "x",
		"long/SKILL.md":      "---\nname: long\n" + strings.Repeat("x-k: value\n", 1) + "description: " + strings.Repeat("long ", 2000) + "\n---\n",
		"many/SKILL.md":      "---\nname: many\ndescription: d\n" + manyFields(150) + "---\n",
		"nothing/readme.txt": "x",
		"utf\xff8/SKILL.md":  "x",
	} {
		put(x.t, x.root, p, text)
	}
	link(x.t, filepath.Join(x.root, "plain"), filepath.Join(x.root, "linked"))
	link(x.t, filepath.Join(x.root, "plain", "SKILL.md"), filepath.Join(x.root, "linkedfile", "SKILL.md"))
	link(x.t, filepath.Join(x.root, "node_modules"), filepath.Join(x.root, "modules"))
	link(x.t, "/etc", filepath.Join(x.root, "out"))
	link(x.t, x.root, filepath.Join(x.root, "deep", "cycle"))
	fifo(x.t, filepath.Join(x.root, "fifo", "SKILL.md"))
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "key-%d: %d\n", i, i)
	}
	return b.String()
}

func TestIndexChangesNoListing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]local.Options{
		"defaults":   {},
		"children":   {Scan: settings.ScanChildren},
		"lower":      {FileNames: settings.FileNamesLower},
		"links":      {Symlinks: settings.SymlinksInBounds},
		"hard links": {RefuseHardLinks: true},
		"few":        {MaxDirs: 9},
		"shallow":    {MaxDepth: 2, Symlinks: settings.SymlinksInBounds},
		"no skips":   {Skip: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newIndexed(t, o)
			x.odd()
			x.same("first")
			written := stat(t, x.file())
			x.same("second")
			x.same("third")
			if !os.SameFile(written, stat(t, x.file())) {
				t.Error("written again, and nothing was new")
			}
			if x.last.Known < x.last.Folders/2 || x.last.Unused != "" || x.last.Unsaved != nil {
				t.Errorf("%+v", x.last)
			}
		})
	}
}

func TestIndexChangesNoListingOfRealSkills(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{MaxDepth: 20, Symlinks: settings.SymlinksInBounds})
	x.root = testenv.Corpus(t)
	x.same("first")
	if got := x.same("second"); len(got) < 290 || x.last.Known < x.last.Folders-10 { // folders with a misspelled SKILL.md are read again
		t.Errorf("%d entries, %+v", len(got), x.last)
	}
}

// Each change is made to a tree that the index knows wholly; the next listing
// is the one without index.
//
// req: C-024, C-013
func TestIndexNoticesEveryChange(t *testing.T) {
	t.Parallel()
	lower := local.Options{FileNames: settings.FileNamesLower}
	links := local.Options{Symlinks: settings.SymlinksInBounds}
	for name, c := range map[string]struct {
		opt    local.Options
		change func(x *indexed, at func(string) string)
	}{
		"an edit of the same size, mtime restored": {change: func(x *indexed, at func(string) string) { sneak(x.t, at("a/b/c/SKILL.md")) }},
		"another file renamed over, size and mtime the same": {change: func(x *indexed, at func(string) string) {
			old := stat(x.t, at("a/b/c/SKILL.md"))
			text, err := os.ReadFile(at("a/b/c/SKILL.md"))
			must(x.t, err)
			must(x.t, os.WriteFile(at("new"), bytes.Replace(text, []byte("does"), []byte("DOES"), 1), 0o644))
			must(x.t, os.Chtimes(at("new"), old.ModTime(), old.ModTime()))
			must(x.t, os.Rename(at("new"), at("a/b/c/SKILL.md")))
		}},
		"a skill added at depth 3":     {change: func(x *indexed, at func(string) string) { skill(x.t, x.root, "a/b/new") }},
		"a skill removed at depth 3":   {change: func(x *indexed, at func(string) string) { must(x.t, os.RemoveAll(at("a/b/c"))) }},
		"only the SKILL.md removed":    {change: func(x *indexed, at func(string) string) { must(x.t, os.Remove(at("a/b/c/SKILL.md"))) }},
		"SKILL.md in a folder without": {change: func(x *indexed, at func(string) string) { skill(x.t, x.root, "none") }},
		"SKILL.md above skills":        {change: func(x *indexed, at func(string) string) { skill(x.t, x.root, "a") }},
		"SKILL.md beside skill.md": {opt: lower, change: func(x *indexed, at func(string) string) {
			put(x.t, x.root, "small/SKILL.md", sourcetest.Skill("small", "wins"))
		}},
		"SKILL.md beside skill.md goes": {opt: lower, change: func(x *indexed, at func(string) string) {
			put(x.t, x.root, "small/SKILL.md", sourcetest.Skill("small", "wins"))
			x.same("with both")
			must(x.t, os.Remove(at("small/SKILL.md")))
		}},
		"a folder moved away, a link to it in its place": {change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a"), at("../away")))
			link(x.t, at("../away"), at("a"))
		}},
		"a folder moved, a followed link in its place": {opt: links, change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a/b"), at("moved")))
			link(x.t, at("moved"), at("a/b"))
		}},
		"a skill moved out, a link to it in its place": {opt: links, change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a/b/c"), at("../away")))
			link(x.t, at("../away"), at("a/b/c"))
		}},
		"a SKILL.md moved, a link in its place": {opt: links, change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a/b/c/SKILL.md"), at("a/b/c/real.md")))
			link(x.t, "real.md", at("a/b/c/SKILL.md"))
		}},
		"a folder becomes a file": {change: func(x *indexed, at func(string) string) {
			must(x.t, os.RemoveAll(at("a/b")))
			put(x.t, x.root, "a/b", "x")
		}},
		"two skills swapped": {change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a/b/c"), at("tmp")))
			must(x.t, os.Rename(at("a/b/d"), at("a/b/c")))
			must(x.t, os.Rename(at("tmp"), at("a/b/d")))
		}},
		"two groups swapped": {change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(at("a"), at("tmp")))
			must(x.t, os.Rename(at("e"), at("a")))
			must(x.t, os.Rename(at("tmp"), at("e")))
		}},
		"a second name of the file, where those are refused": {opt: local.Options{RefuseHardLinks: true}, change: func(x *indexed, at func(string) string) {
			must(x.t, os.Link(at("a/b/c/SKILL.md"), at("../outside")))
		}},
		"a link to a folder appears": {opt: links, change: func(x *indexed, at func(string) string) { link(x.t, at("a/b/c"), at("e/again")) }},
		"a link leads elsewhere": {opt: links, change: func(x *indexed, at func(string) string) {
			skill(x.t, filepath.Dir(x.root), "root/node_modules/hidden")
			link(x.t, at("node_modules/hidden"), at("to"))
			x.same("with the link")
			must(x.t, os.Remove(at("to")))
			link(x.t, at("none"), at("to"))
		}},
		"the root is replaced": {change: func(x *indexed, at func(string) string) {
			must(x.t, os.Rename(x.root, x.root+"-old"))
			skill(x.t, x.root, "other")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newIndexed(t, c.opt)
			x.changed(c.change)
		})
	}
}

// changed warms the index of a small tree, changes the tree and compares.
func (x *indexed) changed(change func(x *indexed, at func(string) string)) {
	x.t.Helper()
	for _, p := range []string{"top", "a/b/c", "a/b/d", "e/f"} {
		skill(x.t, x.root, p)
	}
	put(x.t, x.root, "none/text", "x")
	put(x.t, x.root, "small/skill.md", sourcetest.Skill("small", "has the other name"))
	unknown := 1 // the folder with the misnamed file is read each time
	if x.opt.FileNames == settings.FileNamesLower {
		unknown = 0
	}
	x.warm(unknown)
	change(x, func(p string) string { return filepath.Join(x.root, p) })
	x.same("after the change")
	x.same("once more")
}

// req: C-024
func TestIndexNoticesModes(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	x := newIndexed(t, local.Options{})
	skill(t, x.root, "a/b")
	x.warm(0)
	for _, p := range []string{"a/b/SKILL.md", "a/b", "a"} {
		for _, mode := range []fs.FileMode{0o000, 0o755} {
			must(t, os.Chmod(filepath.Join(x.root, p), mode))
			x.same(fmt.Sprintf("%s %v", p, mode))
			x.same(fmt.Sprintf("%s %v, again", p, mode))
		}
	}
	x.warm(0)
}

// An edit in the very tick in which the index was written leaves no trace but
// the bytes: such a file is not believed.
//
// req: C-024
func TestIndexBelievesNoFreshFile(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	x.clock = time.Now
	skill(t, x.root, "a")
	var changed time.Time // at most a little before the file's last change
	for range 50 {
		changed = time.Now()
		sneak(t, filepath.Join(x.root, "a", "SKILL.md"))
		x.same("at once")
	}
	for age, settled := range map[time.Duration]bool{0: false, 40 * time.Millisecond: false, 10 * time.Second: true} {
		must(t, os.RemoveAll(x.opt.Index))
		x.clock = func() time.Time { return changed.Add(age) }
		x.same("first")
		x.same("second")
		if known := x.last.Known == 2; known != settled { // the root, and the skill
			t.Errorf("%v after the change: %+v", age, x.last)
		}
	}
}

// A file that is no whole index of this root is ignored and made again.
//
// req: C-024
func TestIndexFileIsNeverTrusted(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	skill(t, x.root, "a/b")
	put(t, x.root, "c/SKILL.md", "---\nname: c\n---\n")
	x.warm(0)
	file := x.file()
	good, err := os.ReadFile(file)
	must(t, err)
	refused := func(what string) {
		t.Helper()
		x.same(what)
		if x.last.Known != 0 || x.last.Unused == "" {
			t.Fatalf("%s: %+v", what, x.last)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		must(t, os.WriteFile(file, bad, 0o600))
		refused(fmt.Sprint("flipped at ", i))
		must(t, os.WriteFile(file, good[:i], 0o600))
		refused(fmt.Sprint("cut at ", i))
	}
	must(t, os.WriteFile(file, append(bytes.Clone(good), 0), 0o600))
	refused("a byte more")
	for what, make := range map[string]func(){
		"world-writable": func() { must(t, os.WriteFile(file, good, 0o600)); must(t, os.Chmod(file, 0o602)) },
		"a link":         func() { must(t, os.WriteFile(file+".real", good, 0o600)); link(t, file+".real", file) },
		"a FIFO":         func() { fifo(t, file) },
		"too large":      func() { must(t, os.WriteFile(file, good, 0o600)); must(t, os.Truncate(file, 1<<40)) },
		"another user's": func() {
			must(t, os.WriteFile(file, good, 0o600))
			if os.Chown(file, 12345, -1) != nil {
				must(t, os.Truncate(file, 1)) // only root can change a file's owner
			}
		},
	} {
		must(t, os.RemoveAll(file))
		make()
		refused(what)
		if x.same(what + ", made again"); x.last.Known == 0 {
			t.Errorf("%s: not made again: %+v", what, x.last)
		}
	}
	must(t, os.RemoveAll(file))
	must(t, os.MkdirAll(filepath.Join(file, "full"), 0o700))
	refused("a folder")
	if x.last.Unsaved == nil {
		t.Error("wrote over a folder")
	}
}

func TestIndexIsOfOneRootAndItsOptions(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	put(t, x.root, "a/skill.md", sourcetest.Skill("a", "has the other name"))
	x.warm(1)
	x.opt.FileNames = settings.FileNamesLower
	x.same("other names")
	x.opt.Skip = []string{"a"}
	x.same("other skips")
	if list, _ := os.ReadDir(x.opt.Index); len(list) != 3 {
		t.Errorf("%d index files", len(list))
	}
	if n, err := local.Clear(x.opt.Index); n != 3 || err != nil {
		t.Error(n, err)
	}
	if x.same("cleared"); x.last.Known != 0 {
		t.Errorf("%+v", x.last)
	}
}

func TestIndexThatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	skill(t, x.root, "a")
	put(t, filepath.Dir(x.root), "cache", "a file where the folder should be")
	for range 2 {
		x.same("without")
		if x.last.Unsaved == nil || x.last.Known != 0 {
			t.Errorf("%+v", x.last)
		}
	}
}

func TestIndexFolderDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	skill(t, x.root, "a")
	x.warm(0)
	old := time.Now().AddDate(-1, 0, 0)
	own, gone := filepath.Base(x.file()), strings.Repeat("0a", 16)+".idx"
	foreign := []string{".theirs.tmp", ".vimrc.idx.X.tmp", "foreign", "pack-0a0a.idx"}
	for _, name := range append(slices.Clone(foreign), gone, "."+gone+".X.tmp") {
		p := put(t, x.opt.Index, name, "x")
		must(t, os.Chtimes(p, old, old))
	}
	fresh := "." + gone + ".Y.tmp"
	put(t, x.opt.Index, fresh, "another process writes it")
	skill(t, x.root, "b")
	x.same("written again")
	var names []string
	list, _ := os.ReadDir(x.opt.Index)
	for _, e := range list {
		names = append(names, e.Name())
	}
	kept := append(slices.Clone(foreign), fresh, own)
	slices.Sort(kept)
	if d := cmp.Diff(kept, names); d != "" {
		t.Error(d)
	}
	if n, err := local.Clear(x.opt.Index); n != 2 || err != nil {
		t.Errorf("%d files are cleared, %v", n, err)
	}
	for _, name := range foreign {
		if _, err := os.Lstat(filepath.Join(x.opt.Index, name)); err != nil {
			t.Error(err)
		}
	}
}

// Many processes read, write and change at once: each sees a complete index or
// none, and the last listing is correct.
func TestIndexIsShared(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{})
	for i := range 30 {
		skill(t, x.root, fmt.Sprintf("g%d/s%02d", i%3, i))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			o := x.opt
			o.Scanned = func(s local.Scanned) {
				if s.Unused != "" || s.Unsaved != nil {
					t.Errorf("%+v", s)
				}
			}
			for i := range 20 {
				if g == 0 {
					name := fmt.Sprintf("g1/new%02d", i) // in one step, or a reader may see half a file
					must(t, os.Rename(skill(t, filepath.Dir(x.root), name), filepath.Join(x.root, name)))
				}
				for h, err := range open(t, x.root, &o).List(t.Context()) {
					if err != nil || h.Front.Description != "does "+h.Path {
						t.Error(h, err)
					}
				}
			}
		})
	}
	wg.Wait()
	x.warm(0)
}

// req: A-008
func TestTwoScansAreEqual(t *testing.T) {
	t.Parallel()
	x := newIndexed(t, local.Options{Symlinks: settings.SymlinksInBounds})
	x.odd()
	layer, err := settings.Profile(settings.DefaultProfile)
	must(t, err)
	s, _, err := settings.Resolve(layer)
	must(t, err)
	var first []byte
	for i := range 4 { // from disk, then from the index, then from disk
		o := x.opt
		if i == 3 {
			o.Index = ""
		}
		m := metier.Mount{Label: "l", Tier: policy.User, Source: open(t, x.root, &o), Root: x.root}
		snap, err := metier.Build(t.Context(), []metier.Mount{m}, s.Parse, s.Names, s.Read.IndexRoot, true)
		must(t, err)
		reg, err := json.Marshal(snap.Registry(metier.View{Workspace: x.root}))
		must(t, err)
		if i == 0 {
			first = reg
		}
		if d := cmp.Diff(string(first), string(reg)); d != "" {
			t.Errorf("scan %d:\n%s", i, d)
		}
	}
}

// sneak changes a file in place and hides it: the size and mtime stay.
func sneak(t *testing.T, path string) {
	t.Helper()
	old := stat(t, path)
	text, err := os.ReadFile(path)
	must(t, err)
	i := bytes.Index(text, []byte("does"))
	if i < 0 {
		i = bytes.Index(text, []byte("DOES"))
	}
	for j := range 4 {
		text[i+j] ^= 0x20
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write(text)
	must(t, err)
	must(t, f.Close())
	must(t, os.Chtimes(path, old.ModTime(), old.ModTime()))
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
