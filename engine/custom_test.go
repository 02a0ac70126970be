package engine_test

import (
	"context"
	"testing"
	"testing/fstest"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/policy"
	"metier/source/embedded"
)

// A custom tool that is nil, or that could not be granted, fails before the run begins.
func TestPlan_RefusesCustomToolsThatCannotBeGranted(t *testing.T) {
	t.Parallel()
	named := func(name string) metier.Tool {
		tool, err := metier.FuncTool(name, "Look.", policy.Read, func(context.Context, struct{}) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	for want, tools := range map[string][]metier.Tool{
		"":                {named("look")},
		"tool_invalid":    {nil},
		"tool_name_taken": {named("mcp__desk__look")},
	} {
		_, err := e.Plan(t.Context(), engine.Request{Prompt: "Look.", Custom: engine.Custom{Tools: tools, Model: replay("turns: [{say: Done.}]")}})
		if (err == nil) != (want == "") || err != nil && metier.CodeOf(err) != want {
			t.Errorf("error %v, want code %q", err, want)
		}
	}
}

// A server serves the sources of skills that its program brings.
func TestRun_SkillsHoldCustomMounts(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	src := embedded.New(fstest.MapFS{"count/SKILL.md": {Data: []byte("---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")}})
	p, _, err := e.PlanTools(t.Context(), engine.Request{Custom: engine.Custom{Mounts: []metier.Mount{{Label: "shop", Tier: policy.User, Source: src}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Open(t.Context(), p, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	snap, err := r.Skills(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Find("count"); err != nil {
		t.Error(err)
	}
}
