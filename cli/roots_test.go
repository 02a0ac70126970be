package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/registry"
	"metier/run"
)

// listing runs `metier list --json --digests` and returns the digest of each
// skill of its default list, by name and folder.
func listing(t *testing.T, ws, home string, args ...string) map[string][]string {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"list", "--json", "--digests"}, args...)
	if code := cli.Main(t.Context(), args, []string{"HOME=" + home}, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: ws}); code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, errs.String())
	}
	var doc struct {
		Skills []struct{ Name, Dir, Digest, Tree string }
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, s := range doc.Skills {
		found[s.Name] = append(found[s.Name], s.Digest)
	}
	return found
}

// The machine's skills have the tier org, unless every user can write there.
func TestSkillsOfTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	org := filepath.Join(dir, "etc", "skills")
	if err := copyTree(filepath.Join("testdata", "ws", "skills"), org); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) (out, errs string) {
		t.Helper()
		var o, e bytes.Buffer
		if code := cli.MainOrg(t.Context(), org, append([]string{"list"}, args...), []string{"HOME=" + dir}, cli.IO{In: strings.NewReader(""), Out: &o, Err: &e, Dir: t.TempDir()}); code != 0 {
			t.Fatalf("exit %d: %s", code, e.String())
		}
		return o.String(), e.String()
	}
	if out, errs := list(); !strings.Contains(out, "greet") || !strings.Contains(out, " org ") {
		t.Errorf("%s%s", out, errs)
	}
	if out, _ := list("--skills-root", org); !strings.Contains(out, " org ") {
		t.Errorf("named, it has another tier: %s", out)
	}
	if out, _ := list("--set", "roots=auto:project"); strings.Contains(out, "greet") {
		t.Errorf("it is searched without being listed: %s", out)
	}
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	if err := os.Chmod(org, 0o777); err != nil {
		t.Fatal(err)
	}
	if out, errs := list(); strings.Contains(out, "greet") || !strings.Contains(errs, "root-unsafe: others than the administrator can write to it") {
		t.Errorf("anybody may put skills there: %s%s", out, errs)
	}
}

// Links from agents' folders to the canonical skills work: each skill is listed once, with the
// digest of the link's target.
//
// req: A-003
func TestRootsMadeOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	put := func(name, text string) {
		t.Helper()
		p := filepath.Join(ws, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		p := filepath.Join(ws, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.FromSlash(target), p); err != nil {
			testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
		}
	}
	for _, name := range []string{"report", "table", "chart"} {
		put("canon/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: Use when testing "+name+".\n---\nText.\n")
		link("../../canon/"+name, ".agents/skills/"+name)
		link("../../canon/"+name, ".claude/skills/"+name)
	}
	link("../../canon/report", ".agents/skills/report-again") // a second link of one root
	want := listing(t, ws, dir, "--skills-root", "canon")
	if len(want) != 3 {
		t.Fatalf("the targets are %v", want)
	}
	for _, args := range [][]string{
		{"--set", "roots=auto:project"},
		{"--set", "roots=auto:project", "--set", "root_families=claude"},
		{"--profile", "keen"},
		{"--profile", "cf-harness", "--skills-root", ".agents/skills", "--skills-root", ".claude/skills", "--skills-root", "canon"},
		{"--profile", "cf-harness", "--skills-root", ".agents/skills", "--skills-root", "canon", "--state", "shadowed"}, // the targets, by the links
		{"--profile", "cf-harness", "--skills-root", ".claude/skills", "--skills-root", "canon", "--state", "shadowed"},
	} {
		got := listing(t, ws, dir, args...)
		if len(got) != len(want) {
			t.Errorf("%v: %v", args, got)
		}
		for name, digests := range got {
			if len(digests) != 1 || digests[0] == "" || !slices.Equal(digests, want[name]) {
				t.Errorf("%v: %s is listed with %v, its target has %v", args, name, digests, want[name])
			}
		}
	}
	var out bytes.Buffer
	cli.Main(t.Context(), []string{"list", "--all", "--json", "--set", "roots=auto:project"}, []string{"HOME=" + dir}, cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: ws})
	if text := out.String(); strings.Contains(text, "duplicate-skill-name") || strings.Count(text, `"code": "skill-listed-twice"`) == 0 {
		t.Errorf("a second way to a skill counts as another skill: %s", text)
	}
	link("../canon", "copy/skills") // the root itself is a link
	if d := cmp.Diff(want, listing(t, ws, dir, "--profile", "cf-harness", "--skills-root", "copy/skills", "--all")); d != "" {
		t.Error(d)
	}
	// One that lies in a group of the root, too.
	put("nested/deep/SKILL.md", "---\nname: deep\ndescription: Use when testing deep.\n---\nText.\n")
	link("../../../nested/deep", ".agents/skills/group/deep")
	target, got := listing(t, ws, dir, "--skills-root", "nested")["deep"], listing(t, ws, dir, "--set", "roots=auto:project")["deep"]
	if len(target) != 1 || !slices.Equal(got, target) {
		t.Errorf("deep is listed with %v, its target has %v", got, target)
	}
}

// The registry of a run, with the files of each skill, is written before the model is asked. What
// comes later is not in it.
//
// req: A-036
func TestRegistryIsWrittenBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"skills/one/references/a.md": "a"})
	k.write(named("one", "two"))
	listed := func() []string {
		b, err := os.ReadFile(filepath.Join(k.folder(), run.FileRegistry))
		var list registry.List
		if err = errors.Join(err, json.Unmarshal(b, &list)); err != nil {
			t.Error(err)
		}
		var out []string
		for _, sk := range list.Skills {
			out = append(out, sk.Name)
			for _, r := range sk.Resources {
				out = append(out, sk.Name+" "+r.Path)
			}
		}
		return out
	}
	var first []string
	k.parent = func(int, *modeltest.Request) modeltest.Turn {
		first = listed()
		k.write(map[string]string{"skills/one/references/late.md": "late", "skills/two/late.md": "late"})
		return modeltest.Turn{Text: "Done."}
	}
	k.run("--profile", "cf-harness", "--skills-root", "skills")
	want := []string{"one", "one references/a.md", "two"}
	if d := cmp.Diff([][]string{want, want}, [][]string{first, listed()}); d != "" {
		t.Error(d)
	}
}
