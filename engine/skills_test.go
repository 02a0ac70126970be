package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/policy"
	"metier/run"
	"metier/settings"
	"metier/source/embedded"
)

// counted counts how often a source is listed.
type counted struct {
	metier.Source
	lists atomic.Int64
}

func (c *counted) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	c.lists.Add(1)
	return c.Source.List(ctx)
}

// Runs that share skills list them once, and each record contains the same registry.
func TestSkills_AreListedOnceForManyRuns(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	src := &counted{Source: embedded.New(fstest.MapFS{"count/SKILL.md": {Data: []byte("---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")}})}
	plan := func(prompt string) *engine.Plan {
		p, err := e.Plan(t.Context(), engine.Request{Prompt: prompt, Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]"),
			Mounts: []metier.Mount{{Label: "shop", Tier: policy.User, Source: src}}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	skills, err := e.Skills(t.Context(), plan("List."))
	if err != nil {
		t.Fatal(err)
	}
	var registries []any
	for _, prompt := range []string{"One.", "Two.", "Three."} {
		r, err := e.Start(t.Context(), plan(prompt).WithSkills(skills), e.RunID(), engine.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.Drive(t.Context())
		if err != nil || o.Status != "done" || o.Catalog.Listed == 0 {
			t.Errorf("%s: outcome %+v, %v", prompt, o, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(r.Dir(), run.FileRegistry))
		if err != nil {
			t.Fatal(err)
		}
		var reg map[string]any
		if err := json.Unmarshal(b, &reg); err != nil {
			t.Fatal(err)
		}
		registries = append(registries, reg["skills"])
	}
	if n := src.lists.Load(); n != 1 {
		t.Errorf("the skills were listed %d times", n)
	}
	for i, r := range registries[1:] {
		if diff := cmp.Diff(registries[0], r); diff != "" {
			t.Errorf("registry %d (-first +this)\n%s", i+1, diff)
		}
	}
}

// A plan cannot be started with another plan's skills.
func TestSkills_OfAnotherPlanAreRefused(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	plan := func(root string) *engine.Plan {
		p, err := e.Plan(t.Context(), engine.Request{Prompt: "Go.", Roots: []string{root}, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	skills, err := e.Skills(t.Context(), plan(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), plan(t.TempDir()).WithSkills(skills), e.RunID(), engine.Hooks{}); metier.CodeOf(err) != "skills_other" {
		t.Errorf("error %v", err)
	}
}

// A source with the same label but another user does not provide the same skills.
func TestSkills_OfAnotherSourceOrUserAreRefused(t *testing.T) {
	t.Parallel()
	ws, home := t.TempDir(), t.TempDir()
	source := func() metier.Source {
		return embedded.New(fstest.MapFS{"count/SKILL.md": {Data: []byte("---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")}})
	}
	own := source()
	plan := func(e *engine.Engine, m metier.Mount) *engine.Plan {
		m.Label = "own"
		p, err := e.Plan(t.Context(), engine.Request{Prompt: "Go.", Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]"), Mounts: []metier.Mount{m}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	user := func(name string) *engine.Engine {
		return engine.New(config.NewEnv([]string{"HOME=" + home, "METIER_PRINCIPAL=" + name}, ws), engine.Options{})
	}
	ann := user("ann")
	skills, err := ann.Skills(t.Context(), plan(ann, metier.Mount{Tier: policy.User, Source: own}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		engine *engine.Engine
		mount  metier.Mount
		want   string
	}{
		"the same":       {ann, metier.Mount{Tier: policy.User, Source: own}, ""},
		"a function":     {ann, metier.Mount{Tier: policy.User, Source: own, Off: func(*metier.Head, metier.ID, string) (string, bool) { return "", true }}, "skills_other"},
		"another parse":  {ann, metier.Mount{Tier: policy.User, Source: own, Parse: &settings.Parse{}}, "skills_other"},
		"another source": {ann, metier.Mount{Tier: policy.User, Source: source()}, "skills_other"},
		"another tier":   {ann, metier.Mount{Tier: policy.ThirdParty, Source: own}, "skills_other"},
		"another user":   {user("bob"), metier.Mount{Tier: policy.User, Source: own}, "skills_other"},
	} {
		r, err := c.engine.Start(t.Context(), plan(c.engine, c.mount).WithSkills(skills), c.engine.RunID(), engine.Hooks{})
		if err == nil {
			_, err = r.Drive(t.Context())
			err = errors.Join(err, r.Close(t.Context()))
		}
		code := ""
		if err != nil {
			code = metier.CodeOf(err)
		}
		if diff := cmp.Diff(c.want, code); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
