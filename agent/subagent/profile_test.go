package subagent_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier/agent/subagent"
)

const least = "name: x\ndescription: Does x.\ntools: [inherit]\n"

func TestAProfileHasTheDefaultsOfWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	p, err := subagent.Parse([]byte(least))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(subagent.Profile{Name: "x", Description: "Does x.", Tools: []string{"inherit"}, MaxTurns: 8, Target: "sandbox"}, p); d != "" {
		t.Error(d)
	}
}

func TestAProfileThatMeansNothingIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "name",
		"[a]":                                   "",
		"name: X\ndescription: d\ntools: [a]\n": "name",
		"name: ../x\ndescription: d\ntools: [a]\n":                             "name",
		"name: " + strings.Repeat("x", 65) + "\ndescription: d\n":              "name",
		"name: x\ntools: [a]\n":                                                "description",
		"name: x\ndescription: \"  \"\ntools: [a]\n":                           "description",
		"name: x\ndescription: " + strings.Repeat("d", 501) + "\ntools: [a]\n": "description",
		"name: x\ndescription: d\n":                                            "tools",
		least + "max_turns: 65\n":                                              "max_turns",
		least + "max_turns: -1\n":                                              "max_turns",
		least + "max_tokens: -1\n":                                             "max_tokens",
		least + "target: moon\n":                                               "target",
		least + "target: host\n":                                               "scripts",
		least + "skills: [\"a*\"]\n":                                           "exact name",
		least + "skills: [\" \"]\n":                                            "exact name",
		least + "allow_skills: [\" a\"]\n":                                     "pattern",
		least + "allow_skills: [\"*********\"]\n":                              "pattern",
		least + "scripts: [a]\n":                                               "SKILL:scripts/PATH",
		least + "scripts: [\"a:scripts/../../x\"]\n":                           "SKILL:scripts/PATH",
		least + "scripts: [\"a:scripts/*.sh\"]\n":                              "SKILL:scripts/PATH",
		least + "scripts: [\":scripts/a.sh\"]\n":                               "SKILL:scripts/PATH",
		least + "shell: true\n":                                                "shell",
		least + "tools: [b]\n":                                                 "tools",
	} {
		if _, err := subagent.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a word about %q", text, err, want)
		}
	}
}

func TestAProfileMayHaveTheMostTurns(t *testing.T) {
	t.Parallel()
	if p, err := subagent.Parse([]byte(least + "max_turns: 64\n")); err != nil || p.MaxTurns != 64 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAFolderOfProfilesIsReadByName(t *testing.T) {
	t.Parallel()
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := subagent.Load(fstest.MapFS{"y.yaml": file(strings.ReplaceAll(least, "name: x", "name: y")), "x.yaml": file(least), "note.txt": file("no")})
	if err != nil || len(got) != 2 || got[0].Name != "x" || got[1].Name != "y" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, fs := range map[string]fstest.MapFS{
		"z.yaml is not its name": {"z.yaml": file(least)},
		"too long":               {"x.yaml": file(least + "# " + strings.Repeat("x", 64<<10))},
		"a folder":               {"x.yaml/a": file("x")},
	} {
		if _, err := subagent.Load(fs); err == nil || !strings.Contains(err.Error(), ".yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheBuiltinProfilesAreThese(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, p := range subagent.Builtin() {
		got[p.Name] = p.Target + " " + strings.Join(p.Scripts, ",")
	}
	want := map[string]string{"author": "sandbox ", "default": "sandbox ", "web_fetch": "sandbox ",
		"browser": "host agent-browser:scripts/form-automation.sh,agent-browser:scripts/capture-workflow.sh"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p, _ := subagent.Find(subagent.Builtin(), "default"); p.MaxTurns != 8 || len(p.Tools) != 1 || p.Tools[0] != subagent.Inherit {
		t.Errorf("%+v", p)
	}
	if p, _ := subagent.Find(subagent.Builtin(), "author"); p.MaxTurns != 24 {
		t.Errorf("%+v", p)
	}
}

// req: A-177
func TestAProfileTakesItsSkillsAndThoseItsPatternsTakeIn(t *testing.T) {
	t.Parallel()
	p := subagent.Profile{Skills: []string{"exact"}, AllowSkills: []string{"pattern-*", "Any Name", "org:*"}}
	for skill, want := range map[string]bool{"exact": true, "Exact": false, "pattern-ui": true, "PATTERN-UI": true, "pattern": false, "any name": true, "other": false, "": false} {
		if p.Lets("src:x", skill) != want {
			t.Errorf("%q: %v", skill, !want)
		}
	}
	if p.Lets("evil:x", "org:deploy") || !p.Lets("org:deploy", "deploy") {
		t.Error("a name that looks like an ID is taken for one")
	}
}
