package metier_test

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/registry"
	"metier/settings"
	"metier/source/embedded"
)

// oneOfEachKind is a skill with a file in each folder that has a meaning, and one in none.
func oneOfEachKind() map[string]string {
	return map[string]string{"skills/unit/SKILL.md": skillFile("unit", "Text.\n"), "skills/unit/references/a.md": "a\n", "skills/unit/assets/b.png": "\x00", "skills/unit/templates/c.txt": "c\n",
		"skills/unit/scripts/d": "#!/usr/bin/env node\n", "skills/unit/scripts/e.py": "e\n", "skills/unit/f.md": "f\n"}
}

// kinds are the kinds of these files, by path.
func kinds() map[string]string {
	return map[string]string{"references/a.md": "reference", "assets/b.png": "asset", "templates/c.txt": "template", "scripts/d": "script", "scripts/e.py": "script", "f.md": "other"}
}

// kindsOf returns the kinds of a skill's files in a registry, by path.
func kindsOf(list registry.List, name string) map[string]string {
	out := map[string]string{}
	for _, sk := range list.Skills {
		for _, r := range sk.Resources {
			if sk.Name == name {
				out[r.Path] = r.Kind
			}
		}
	}
	return out
}

// req: A-038
func TestRegistry_HasTheKindOfEachFile(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, oneOfEachKind())
	if diff := cmp.Diff(kinds(), kindsOf(w.registry(), "unit")); diff != "" {
		t.Errorf("the registry (-want +got):\n%s", diff)
	}
	read := map[string]string{}
	for p := range kinds() {
		w.works(resourceCall, args{"skill": "unit", "path": p})
		read[p] = last[event.ResourceRead](w).Kind
	}
	if diff := cmp.Diff(kinds(), read); diff != "" {
		t.Errorf("records of reads (-want +got):\n%s", diff)
	}
}

// req: A-021
func TestRegistry_ClassesTheFilesOfEmbeddedSkills(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{}
	for name, text := range oneOfEachKind() {
		tree[strings.TrimPrefix(name, "skills/")] = &fstest.MapFile{Data: []byte(text)}
	}
	w := newFixture(t, cfHarness, nil)
	w.roots = []metier.Mount{{Label: "built", Tier: policy.Builtin, Source: embedded.New(tree)}}
	if diff := cmp.Diff(kinds(), kindsOf(w.registry(), "unit")); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// A session that is opened again has the skills of its record, with the kind of each file and what
// runs each script, even if the files changed.
//
// req
func TestOpen_ResumeKeepsTheRegistry(t *testing.T) {
	t.Parallel()
	w := opened(t, cfHarness, oneOfEachKind())
	view := metier.View{Paths: w.set.Catalog.Paths, Workspace: w.dir}
	before := w.Snapshot().Registry(view).Skills
	if diff := cmp.Diff(kinds(), kindsOf(registry.List{Skills: before}, "unit")); diff != "" {
		t.Fatalf("kinds at the start (-want +got):\n%s", diff)
	}
	w.put("skills/unit/scripts/d", "#!/bin/bash\n")
	w.put("skills/unit/late.md", "late\n")
	if diff := cmp.Diff(before, w.open().Snapshot().Registry(view).Skills); diff != "" {
		t.Errorf("after the resume (-want +got):\n%s", diff)
	}
}

// A script is recorded even if its interpreter may not run scripts.
//
// req: A-079
func TestRegistry_ListsScriptsOfOtherInterpreters(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cfHarness, map[string]string{"skills/unit/SKILL.md": skillFile("unit", ""), "skills/unit/scripts/a": "#!/usr/bin/awk -f\n", "skills/unit/scripts/b.rb": "#!/usr/bin/env ruby\n"})
	got := map[string]*registry.Script{}
	for _, sk := range w.registry().Skills {
		for _, r := range sk.Resources {
			got[r.Path] = r.Script
		}
	}
	want := map[string]*registry.Script{"scripts/a": {Shebang: "#!/usr/bin/awk -f", Runtime: "shebang"}, "scripts/b.rb": {Shebang: "#!/usr/bin/env ruby", Runtime: "ruby"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who may load a skill is what the skill said when the run began.
//
// req
func TestOpen_ResumeKeepsWhoMayLoadASkill(t *testing.T) {
	t.Parallel()
	type may struct{ Model, User bool }
	w := newFixture(t, cfHarness, map[string]string{"skills/open/SKILL.md": skillFile("open", ""), "skills/quiet/SKILL.md": skillFile("quiet", "", "disable-model-invocation: true"),
		"skills/inner/SKILL.md": skillFile("inner", "", "user-invocable: false")})
	who := func() map[string]may {
		out := map[string]may{}
		for _, sk := range w.open().Snapshot().All() {
			out[sk.Name] = may{sk.ModelInvocable, sk.UserInvocable}
		}
		return out
	}
	want := map[string]may{"open": {true, true}, "quiet": {false, true}, "inner": {true, false}}
	if diff := cmp.Diff(want, who()); diff != "" {
		t.Errorf("at the start (-want +got):\n%s", diff)
	}
	for _, name := range []string{"quiet", "inner"} {
		w.put("skills/"+name+"/SKILL.md", skillFile(name, ""))
	}
	if diff := cmp.Diff(want, who()); diff != "" {
		t.Errorf("after the resume (-want +got):\n%s", diff)
	}
	names, enum := toldNames(t, w)
	if diff := cmp.Diff([][]string{{"inner", "open"}, {"inner", "open"}}, [][]string{names, enum}); diff != "" {
		t.Errorf("the catalog and the schema (-want +got):\n%s", diff)
	}
}

// req: A-036
func TestRegistry_ListsTheFilesOfEveryTier(t *testing.T) {
	t.Parallel()
	for _, tier := range []policy.Tier{policy.Builtin, policy.Org, policy.Project, policy.User, policy.ThirdParty, ""} {
		w := newFixture(t, cfHarness, oneOfEachKind())
		w.roots = []metier.Mount{w.mount("skills", tier)}
		if diff := cmp.Diff(kinds(), kindsOf(w.registry(), "unit")); diff != "" {
			t.Errorf("tier %q (-want +got):\n%s", tier, diff)
		}
	}
}

// The sandbox paths of the registry do not depend on the paths that the model is shown.
//
// req: A-039
func TestRegistry_HasSandboxPathsInEveryView(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cfHarness, guide())
	snap := w.snapshot()
	for _, paths := range []settings.Paths{settings.PathsSandbox, settings.PathsAuto, settings.PathsHost, settings.PathsRepo, settings.PathsSkill, settings.PathsNone} {
		want, got := map[string]string{}, map[string]string{}
		for _, r := range snap.Registry(metier.View{Paths: paths, Workspace: w.dir}).Skills[0].Resources {
			want[r.Path], got[r.Path] = path.Join(metier.WorkspacePath, "skills/guide", r.Path), r.SandboxResourcePath
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 4 {
			t.Errorf("paths=%s: %d files (-want +got):\n%s", paths, len(got), diff)
		}
	}
}

// A page after the first one is compared with the registry like the whole file.
//
// req
func TestRead_ComparesEveryPage(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := newFixture(t, profile, guide())
		w.config = func(c *metier.Config) { c.ToolsOnly = true }
		w.open().activate("guide")
		w.put("skills/guide/references/twenty", "12345678901234567899")
		for _, offset := range []int{0, 10} {
			o := w.works(resourceCall, args{"skill": "guide", "path": "references/twenty", "maxBytes": 10, "offset": offset})
			mentions(t, o.Text(), `changed="true"`, "resource-digest-mismatch")
			if diff := cmp.Diff(new(false), last[event.ResourceRead](w).Matches); diff != "" {
				t.Errorf("digestMatchesRegistry at offset %d (-want +got):\n%s", offset, diff)
			}
		}
	})
}

// Files that were indexed when they were first used are compared with that index after a resume.
//
// req: A-046
func TestOpen_ResumeComparesWithTheIndexOfTheFirstUse(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := opened(t, profile, guide())
		w.works(resourceCall, args{"skill": "guide", "path": "references/twenty"})
		w.put("skills/guide/references/a.md", "canary-REFERENCE")
		o := w.open().works(resourceCall, args{"skill": "guide", "path": "references/a.md"})
		mentions(t, o.Text(), "resource-digest-mismatch")
		if diff := cmp.Diff(new(false), last[event.ResourceRead](w).Matches); diff != "" {
			t.Errorf("digestMatchesRegistry (-want +got):\n%s", diff)
		}
	})
}

// Whatever part of a binary file is asked for, it is binary, and none of it is shown.
//
// req: A-056
func TestRead_ShowsNoPartOfABinaryFile(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := newFixture(t, profile, map[string]string{"skills/kinds/SKILL.md": skillFile("kinds", ""), "skills/kinds/late-nul": "canary canary\x00canary canary"})
		w.config = func(c *metier.Config) { c.ToolsOnly = true }
		w.open()
		for name, a := range map[string]args{"first bytes": {"maxBytes": 6}, "last bytes": {"offset": 14}, "bytes in between": {"maxBytes": 3, "offset": 7}} {
			a["skill"], a["path"] = "kinds", "late-nul"
			o := w.works(resourceCall, a)
			if diff := cmp.Diff([]string{"binary", ""}, []string{reading(t, o).Status, reading(t, o).Encoding}); diff != "" {
				t.Errorf("%s: status and encoding (-want +got):\n%s", name, diff)
			}
			mentions(t, o.Text(), "late-nul is a binary file: 27 bytes", "Its content is not shown.")
		}
	})
}
