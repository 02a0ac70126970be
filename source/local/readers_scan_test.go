package local_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"metier"
	"metier/internal/confine/confinetest"
	"metier/internal/testenv"
	"metier/policy"
	"metier/source/sourcetest"
)

// found opens a victim whose root contains an attack on the scan, and expects
// the listing to be as given, except for guide, which the attack must not
// affect.
func (v *victim) found(lines ...string) {
	v.t.Helper()
	within(v.t, func() { v.open() })
	got := slices.DeleteFunc(standings(v.Snapshot()), func(s string) bool { return s == "guide loaded" })
	want(v.t, got, lines...)
	v.gives("references/a.md", inside)
}

func (v *victim) root(path string) string {
	return filepath.Join(v.dir, "root", filepath.FromSlash(path))
}

var onScans = []attack{
	{36, "circle of links", func(t *testing.T) {
		v := newVictim(t)
		link(t, ".", v.root("round"))
		skill(t, v.root("."), "group/s")
		link(t, "..", v.root("group/up"))
		put(t, v.root("group/s"), "references/r.md", "once")
		link(t, "..", v.root("group/s/references/up"))
		link(t, "b", v.root("a"))
		link(t, "a", v.root("b"))
		v.found("a refused unresolvable-skill-scan-path", "b refused unresolvable-skill-scan-path", "group/s loaded symlink-cycle", "group/up refused symlink-cycle", "round refused symlink-cycle")
		if sk, err := v.Snapshot().Find("s"); err != nil || len(sk.Resources) != 2 {
			t.Errorf("%+v, %v", sk.Resources, err)
		}
	}},
	{36, "circle of mounts", func(t *testing.T) {
		if !confinetest.Cage(t) {
			return
		}
		v := newVictim(t)
		for _, dir := range []string{"loop", "guide/references/loop"} {
			if err := os.MkdirAll(v.root(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			confinetest.Bind(t, v.root("."), v.root(dir))
		}
		within(t, func() { v.open() })
		v.gives("references/a.md", inside)
		v.refuses("references/loop/guide/references/a.md", outsideRoot)
		want(t, standings(v.Snapshot()), "guide loaded unreadable-skill-resource-directory", "loop refused skill-other-file-system")
	}},
	{37, "ten thousand folders deep", deeperThanAnyPath},
	{38, "a hundred thousand folders", manyFolders},
	{39, "folder that cannot be read", func(t *testing.T) {
		if !testenv.OrdinaryUser(t) {
			return
		}
		v := newVictim(t)
		for _, dir := range []string{"group/locked", "listed"} {
			skill(t, v.root("."), dir)
		}
		put(t, v.at("."), "assets/secret", canary)
		for path, mode := range map[string]os.FileMode{"group": 0, "listed": 0o444, "guide/assets": 0} {
			chmod(t, v.root(path), mode)
			t.Cleanup(func() { _ = os.Chmod(v.root(path), 0o755) })
		}
		within(t, func() { v.open() })
		want(t, standings(v.Snapshot()), "group refused unreadable-directory", "guide loaded unreadable-skill-resource-directory", "listed refused unreadable-directory")
		v.gives("references/a.md", inside)
		v.refuses("assets/secret", "permission_denied")
	}},
	{40, "one name in two roots", twice},
	{41, "SKILL.md that is a FIFO", func(t *testing.T) {
		v := newVictim(t)
		fifo(t, v.root("x/SKILL.md"))
		v.found("x refused unreadable-skill")
	}},
	{41, "SKILL.md that is a device", func(t *testing.T) {
		v := newVictim(t)
		if runtime.GOOS == "windows" {
			testenv.Skip(t, "Windows has no folder of devices")
		}
		link(t, "/dev/zero", v.root("link/SKILL.md"))
		lines := []string{"link refused skill-outside-root"}
		if err := os.Mkdir(v.root("real"), 0o755); err != nil {
			t.Fatal(err)
		}
		if confinetest.Zero(v.root("real/SKILL.md")) == nil { // for users other than root the link is all that is visible
			lines = append(lines, "real refused unreadable-skill")
		}
		v.found(lines...)
	}},
	{41, "SKILL.md that is a folder, a link out, or empty", func(t *testing.T) {
		v := newVictim(t)
		put(t, v.root("folder"), "SKILL.md/x", "x")
		put(t, v.dir, "outside/SKILL.md", sourcetest.Skill("out", canary))
		link(t, "../../outside/SKILL.md", v.root("out/SKILL.md"))
		put(t, v.root("empty"), "SKILL.md", "")
		v.found("empty refused empty-file", "folder refused unreadable-skill", "out refused skill-outside-root")
	}},
	{41, "SKILL.md of 1 GiB", func(t *testing.T) {
		v := newVictim(t)
		for name, text := range map[string]string{"head": sourcetest.Skill("head", "d"), "hole": ""} {
			if err := os.Truncate(put(t, v.root(name), "SKILL.md", text), 1<<30); err != nil {
				testenv.Skip(t, "no file without bytes here: "+err.Error())
			}
		}
		v.found("head refused skill-too-large", "hole refused no-frontmatter nul-byte")
	}},
}

// A name in two roots is one skill, that of the first root. Files of the others
// are not read in its place, even by their full names.
func twice(t *testing.T) {
	v := newVictim(t)
	put(t, v.dir, "mine/guide/SKILL.md", sourcetest.Skill("guide", "mine"))
	put(t, v.dir, "mine/guide/references/b.md", "mine alone")
	var mounts []metier.Mount
	for _, m := range []struct {
		dir  string
		tier policy.Tier
	}{{"mine", policy.User}, {"root", policy.Project}, {"root", policy.ThirdParty}} {
		dir := filepath.Join(v.dir, m.dir)
		mounts = append(mounts, metier.Mount{Label: m.dir + "-" + string(m.tier), Tier: m.tier, Source: open(t, dir, nil), Root: dir})
	}
	snap, err := metier.Build(t.Context(), mounts, v.set.Parse, v.set.Names, v.set.Read.IndexRoot, true)
	if err != nil {
		t.Fatal(err)
	}
	v.begin(snap)
	loaded := slices.DeleteFunc(standings(snap), func(s string) bool { return !strings.HasPrefix(s, "guide loaded") })
	if len(loaded) != 1 || len(snap.All()) != 3 {
		t.Errorf("%q", standings(snap))
	}
	for _, q := range []struct{ skill, path, text, code string }{
		{"guide", "references/a.md", inside, ""},
		{"guide", "references/b.md", "", "resource_not_found"},
		{"root-project:guide", "references/a.md", inside, ""},
		{"root-project:guide", "references/b.md", "", "resource_not_found"},
	} {
		if o := v.reads(q.skill, q.path); o.Code() != q.code || !strings.Contains(o.Text(), q.text) {
			t.Errorf("%s %s: code %q: %s", q.skill, q.path, o.Code(), o.Text())
		}
	}
	for _, path := range []string{"references/a.md", "references/b.md"} { // a shadowed skill is not loaded
		if o := v.reads("mine-user:guide", path); o.Code() != "skill_not_found" {
			t.Errorf("%s: code %q: %s", path, o.Code(), o.Text())
		}
	}
}
