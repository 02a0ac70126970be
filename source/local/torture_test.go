package local_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"metier"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

// defaults are the settings of the default profile.
func defaults(t *testing.T) settings.Settings {
	t.Helper()
	layer, err := settings.Profile("default")
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// built lists a root under the default settings, and fails if that takes longer
// than any real listing.
func built(t *testing.T, root string, set settings.Settings) *metier.Snapshot {
	t.Helper()
	d := set.Discover
	src := open(t, root, &local.Options{Scan: d.Scan, FileNames: d.FileNames, Symlinks: d.Symlinks, MaxDepth: d.MaxDepth, MaxDirs: d.MaxDirs, MaxResourceFiles: d.MaxResources})
	type result struct {
		snap *metier.Snapshot
		err  error
	}
	done := make(chan result, 1)
	go func() {
		snap, err := metier.Build(t.Context(), []metier.Mount{{Label: "skills", Tier: policy.Project, Source: src, Root: root}},
			set.Parse, set.Names, set.Read.IndexRoot, d.ResourceIndex == settings.ResourceIndexStart)
		done <- result{snap, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.snap
	case <-time.After(60 * time.Second):
		t.Fatal("the listing hangs")
		return nil
	}
}

// standings prints the result of each entry: path, state, and the findings that
// are more than advice.
func standings(snap *metier.Snapshot) (lines []string) {
	for _, sk := range snap.All() {
		line := sk.ID.Path + " " + string(sk.State)
		for _, d := range sk.Diagnostics {
			if d.Severity != "advice" {
				line += " " + d.Code
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// TestTorture runs the cases on which other runtimes were compared: most lose
// skills in it, ten of twelve hang in one, and two lose all skills because of
// one. "good" is the neighbor that no case may affect.
func TestTorture(t *testing.T) {
	t.Parallel()
	text := func(front, body string) string { return "---\n" + front + "---\n" + body }
	plain := func(name string) string { return text("name: "+name+"\ndescription: Does work.\n", "Text.\n") }
	file := func(content string) func(*testing.T, string) {
		return func(t *testing.T, root string) { put(t, root, "x/SKILL.md", content) }
	}
	const ok = "x loaded"
	for name, c := range map[string]struct {
		make func(t *testing.T, root string)
		want []string
	}{
		"01 plain":              {file(plain("x")), []string{ok}},
		"02 byte order mark":    {file("\ufeff" + plain("x")), []string{ok}},
		"03 CRLF":               {file(strings.ReplaceAll(plain("x"), "\n", "\r\n")), []string{ok}},
		"04 folded description": {file(text("name: x\ndescription: >\n  Does\n  work.\n", "")), []string{ok}},
		"05 unquoted colon":     {file(text("name: x\ndescription: Use when: asked\n", "")), []string{ok + " unquoted-colon"}},
		"06 unknown field":      {file(text("name: x\ndescription: d\nversion: 1\n", "")), []string{ok}},
		"07 list of tools":      {file(text("name: x\ndescription: d\nallowed-tools: [Read, Bash]\n", "")), []string{ok}},
		"08 nested metadata":    {file(text("name: x\ndescription: d\nmetadata:\n  a:\n    b: [c]\n", "")), []string{ok}},
		"09 no last newline":    {file("---\nname: x\ndescription: d\n---"), []string{ok}},
		"10 broken YAML":        {file(text("name: [x\ndescription: {\n", "")), []string{"x refused invalid-yaml"}},
		"11 no description":     {file(text("name: x\n", "")), []string{"x refused missing-description"}},
		// Better than required: the first paragraph is used as the description,
		// and this is reported.
		"11b but instructions": {file(text("name: x\n", "Does work.\n")), []string{ok + " missing-description"}},
		"12 another folder":    {file(plain("other")), []string{ok + " name-directory-mismatch"}},
		"13 upper case":        {file(plain("X-Ray")), []string{ok + " invalid-name name-directory-mismatch"}},
		"14 skill.md":          {func(t *testing.T, root string) { put(t, root, "x/skill.md", plain("x")) }, []string{ok}},
		"15 two folders deep":  {func(t *testing.T, root string) { put(t, root, "a/b/x/SKILL.md", plain("x")) }, []string{"a/b/x loaded"}},
		"16 link to a folder":  {linkedFolder(plain("x")), []string{"y loaded name-directory-mismatch"}},
		"16b link in bounds":   {func(t *testing.T, root string) { link(t, "good", filepath.Join(root, "x")) }, nil},
		"17 link to outside":   {linkedFile(plain("x")), []string{"x refused skill-outside-root"}},
		"18 FIFO":              {func(t *testing.T, root string) { fifo(t, filepath.Join(root, "x/SKILL.md")) }, []string{"x refused unreadable-skill"}},
		"19 loop of links":     {loops(plain("x")), []string{"round refused symlink-cycle", ok}},
		"20 8 MiB":             {file(plain("x") + strings.Repeat("text ", 8<<20/5)), []string{"x refused skill-too-large"}},
		"20b 3 MiB":            {file(plain("x") + strings.Repeat("text ", 3<<20/5)), []string{ok}},
		"21 alias bomb":        {file(text("name: x\na: &a [x,x]\nb: &b [*a,*a]\ndescription: *b\n", "")), []string{"x refused yaml-anchor-refused"}},
		"22 node_modules": {func(t *testing.T, root string) {
			put(t, root, "node_modules/p/SKILL.md", plain("p"))
			file(plain("x"))(t, root)
		}, []string{ok}},
		"23 long description":  {file(text("name: x\ndescription: "+strings.Repeat("word ", 400)+"\n", "")), []string{ok + " description-too-long"}},
		"24 not UTF-8":         {file(text("name: x\ndescription: caf\xe9\n", "")), []string{"x refused not-utf8"}},
		"24b, in the body":     {file(text("name: x\ndescription: d\n", "caf\xe9\n")), []string{ok}},
		"25 XML":               {file(text("name: x\ndescription: a <b>&amp;</b> ]]>\n", "")), []string{ok}},
		"26 dashes in a value": {file(text("name: x\ndescription: a --- b\n", "")), []string{ok}},
		"27 a name twice": {func(t *testing.T, root string) {
			put(t, root, "x/SKILL.md", plain("x"))
			put(t, root, "y/SKILL.md", plain("x"))
		},
			[]string{ok, "y hidden name-directory-mismatch name-taken"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(base(t), "root")
			skill(t, root, "good")
			c.make(t, root)
			snap := built(t, root, defaults(t))
			if good, err := snap.Find("good"); err != nil || good.State != metier.Loaded {
				t.Errorf("the good skill is %s: %v", good.State, err)
			}
			got := slices.DeleteFunc(standings(snap), func(s string) bool { return s == "good loaded" })
			want(t, got, c.want...)
			for _, sk := range snap.All() {
				if strings.Contains(sk.Name+sk.Description+fmt.Sprint(sk.Diagnostics), "canary") {
					t.Errorf("something from outside is in %+v", sk)
				}
			}
		})
	}
}

// linkedFolder is a skill below a skipped folder, reached through a link.
func linkedFolder(content string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		put(t, root, ".archive/x/SKILL.md", content)
		link(t, ".archive/x", filepath.Join(root, "y"))
	}
}

func linkedFile(content string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		outside := put(t, filepath.Dir(root), "outside/SKILL.md", strings.ReplaceAll(content, "Does work", "canary"))
		link(t, outside, filepath.Join(root, "x/SKILL.md"))
	}
}

func loops(content string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		put(t, root, "x/SKILL.md", content)
		link(t, "..", filepath.Join(root, "x/up"))
		link(t, ".", filepath.Join(root, "round"))
	}
}
