package run_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/run"
)

// req: A-188, C-087
func TestCountFoldsRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	day := func(n int) time.Time { return time.Date(2031, 5, n, 10, 0, 0, 0, time.UTC) }
	for i, evs := range [][]event.Event{
		{event.SkillActivated{Call: "c1", SkillID: "s:a", Name: "a", Hash: "h1"}, event.SkillActivated{Call: "c2", SkillID: "s:b", Name: "b", Hash: "h"}},
		{event.SkillActivated{Call: "c1", SkillID: "s:a", Name: "a", Hash: "h2"}, event.ResourceRead{Call: "c2", SkillID: "s:a", Name: "a", Status: "read"}},
		{event.SkillActivated{Call: "c1", SkillID: "s:a", Name: "new", Hash: "h2"}, event.ResourceRead{Call: "c2", SkillID: "s:a", Status: "error"},
			event.ResourceRead{Call: "c3", Status: "error"}, event.ToolResult{ID: "c4", Tool: "load_skill", Code: "skill_not_found"}},
	} {
		now := func() time.Time { return day(i + 1) }
		f, a := create(t, root, "run-"+string(rune('1'+i)), &run.Options{Now: now})
		a.add(event.SessionOpened{Session: "s"})
		a.add(evs...)
		ok(t, f.Close())
	}
	ok(t, os.Mkdir(filepath.Join(root, "broken"), 0o700))
	at := func(n int) string { return day(n).Format(time.RFC3339Nano) }
	b := run.SkillUse{ID: "s:b", Name: "b", Digest: "h", Versions: 1, Runs: 1, Activations: 1, Uses: 1, FirstUsed: at(1), LastUsed: at(1)}
	for name, c := range map[string]struct {
		o    run.StatsOptions
		want run.Stats
	}{
		"all": {run.StatsOptions{}, run.Stats{Runs: 3, Unknown: 1, Skills: []run.SkillUse{
			{ID: "s:a", Name: "new", Digest: "h2", Versions: 2, Runs: 3, Activations: 3, Reads: 1, ReadErrors: 1, Uses: 4, FirstUsed: at(1), LastUsed: at(3)}, b}}},
		"by name": {run.StatsOptions{Skill: "B"}, run.Stats{Runs: 3, Unknown: 1, Skills: []run.SkillUse{b}}},
		"since": {run.StatsOptions{Since: day(2)}, run.Stats{Runs: 2, Unknown: 1, Skills: []run.SkillUse{
			{ID: "s:a", Name: "new", Digest: "h2", Versions: 1, Runs: 2, Activations: 2, Reads: 1, ReadErrors: 1, Uses: 3, FirstUsed: at(2), LastUsed: at(3)}}}},
		"newest": {run.StatsOptions{Limit: 1}, run.Stats{Runs: 1, Unknown: 1, Omitted: 3, Skills: []run.SkillUse{
			{ID: "s:a", Name: "new", Digest: "h2", Versions: 1, Runs: 1, Activations: 1, ReadErrors: 1, Uses: 1, FirstUsed: at(3), LastUsed: at(3)}}}},
	} {
		told := 0
		c.o.Progress = func(done, all int) { told = done*100 + all }
		got, err := run.Count(t.Context(), root, c.o)
		ok(t, err)
		if c.want.Omitted == 0 {
			if len(got.Problems) != 1 || got.Problems[0].Run != "broken" || got.Problems[0].Code != run.CodeNotFound || told != 404 {
				t.Errorf("%s: problems %+v, told %d", name, got.Problems, told)
			}
		}
		got.Problems = nil
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if got, err := run.Count(t.Context(), filepath.Join(root, "nowhere"), run.StatsOptions{}); err != nil || got.Runs != 0 || got.Skills == nil || got.Problems == nil {
		t.Errorf("no folder: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.Count(ctx, root, run.StatsOptions{}); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
}

// req: A-188, C-087
func TestCountersOfASkill(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "one", nil)
	a.open("cli-preload") // one activation of skills:alpha
	script := a.json(map[string]string{"skill": "alpha", "path": "scripts/count.ts"})
	good, zero := a.executed("s1"), 0
	good.Exit = &zero
	unfit := a.executed("s3")
	unfit.Status, unfit.Code = "error", "sandbox_unavailable"
	returned := func(id, tool, code string) event.ToolResult { return event.ToolResult{ID: id, Tool: tool, Code: code} }
	a.add(event.ToolCallStarted{ID: "s1", Tool: "run_skill_script", Args: script}, good, returned("s1", "run_skill_script", ""),
		event.ToolCallStarted{ID: "s2", Tool: "run_skill_script", Args: script}, a.executed("s2"), returned("s2", "run_skill_script", "script_failed"),
		event.ToolCallStarted{ID: "s3", Tool: "run_skill_script", Args: script}, unfit, returned("s3", "run_skill_script", "sandbox_unavailable"),
		event.PolicyDecided{Call: "s4", Tool: "run_skill_script", Args: script}, returned("s4", "run_skill_script", "script_not_allowlisted"),
		event.PolicyDecided{Call: "s5", Tool: "run_skill_script", Args: a.json(map[string]string{"skill": "nobody"})}, returned("s5", "run_skill_script", "skill_not_found"),
		event.PolicyDecided{Call: "l1", Tool: "load_skill", Args: a.json(map[string]string{"name": "alpha"})}, returned("l1", "load_skill", "skill_denied"),
		event.ResourceRead{Call: "r1", SkillID: "skills:alpha", Name: "alpha", Status: "read"},
		event.ResourceRead{Call: "r2", SkillID: "skills:alpha", Name: "alpha", Status: "binary"},
		event.ResourceRead{Call: "r3", SkillID: "skills:alpha", Name: "alpha", Status: "error", Code: "resource_not_found"},
		event.SkillActivated{Call: "l2", SkillID: "skills:beta", Name: "beta", Hash: "sha256:bb"}, event.ResourceRead{Call: "r4", SkillID: "skills:beta", Name: "beta", Status: "error", Code: "resource_path_invalid"})
	count := func() run.SkillUse {
		t.Helper()
		got, err := run.Count(t.Context(), root, run.StatsOptions{})
		ok(t, err)
		if len(got.Skills) != 2 || len(got.Problems) != 0 || got.Unknown != 1 {
			t.Fatalf("%+v", got)
		}
		if b := got.Skills[1]; b.ID != "skills:beta" || b.Activations != 1 || b.Failures != 0 || b.Reads != 0 || b.ReadErrors != 1 || b.Scripts != 0 || b.ScriptFails != 0 || b.Uses != 1 {
			t.Errorf("of another skill: %+v", b)
		}
		return got.Skills[0]
	}
	u := count()
	got := []int{u.Activations, u.Failures, u.Reads, u.ReadErrors, u.Scripts, u.ScriptFails, u.Uses}
	if d := cmp.Diff([]int{1, 1, 2, 1, 2, 3, 5}, got); d != "" {
		t.Errorf("activations, failures, reads, read errors, scripts, script failures, uses (-want +got):\n%s", d)
	}
	a.add(event.SkillActivated{Call: "load2", SkillID: "skills:alpha", Name: "alpha", Hash: u.Digest})
	if again := count(); again.Uses != u.Uses+1 || again.Activations != 2 {
		t.Errorf("uses %d and then %d", u.Uses, again.Uses)
	}
	child, b := create(t, f.Children(), "t1.c9", nil) // what a subagent used counts as used by its parent's run
	b.add(event.SkillActivated{Call: "load", SkillID: "skills:alpha", Name: "alpha", Hash: u.Digest}, event.ResourceRead{Call: "r1", SkillID: "skills:alpha", Name: "alpha", Status: "read"})
	ok(t, child.Close())
	if with := count(); with.Activations != 3 || with.Reads != u.Reads+1 || with.Runs != 1 {
		t.Errorf("with a subagent: %+v", with)
	}
	ok(t, f.Close())
}
