package exectool_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/settings"
)

// req: C-040, C-050, C-060
func TestTiersOfScripts(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho \"ran ${HTTPS_PROXY:+with a network}\"\n"})
	for _, tt := range []struct {
		tier  policy.Tier
		asks  bool
		hosts []string // that the operator granted
		says  string   // what a question has to show about the network
	}{
		{policy.Builtin, false, nil, ""},
		{policy.Org, false, nil, ""},
		{policy.Project, true, nil, "network: none"},
		{policy.User, true, nil, "network: none"},
		{policy.ThirdParty, true, nil, "network: none"},
		{policy.ThirdParty, true, []string{"example.invalid"}, "example.invalid"},
		{policy.Tier("unheard-of"), true, nil, "network: none"},
	} {
		w := newFixture(t, setup{profile: agentRuntime, tier: tt.tier, set: func(s *settings.Settings) { s.Policy.AllowedTools = settings.AllowedToolsIgnore },
			grants: func(g *policy.Grants) { g.Hosts = tt.hosts }}, files)
		o, asks := w.try(metier.Call{ID: "q", Tool: "run_skill_script", Args: []byte(`{"skill":"demo","path":"scripts/a.sh"}`)})
		if (asks != nil) != tt.asks {
			t.Errorf("%s: asks %v: %s", tt.tier, asks != nil, o.Text())
			continue
		}
		if asks != nil {
			if len(w.box.jobs) > 0 {
				t.Errorf("%s: it ran before it was answered", tt.tier)
			}
			for _, says := range []string{tt.says, "run the script demo:scripts/a.sh (tier " + string(tt.tier.Or()) + ")?"} {
				if !strings.Contains(asks.Question.Text, says) {
					t.Errorf("%s: the question %q does not say %q", tt.tier, asks.Question.Text, says)
				}
			}
			if err := w.s.Answer(t.Context(), "q", policy.Answer{Question: asks.Question.ID, Allow: true, By: "owner"}); err != nil {
				t.Fatal(err)
			}
			if o, asks = w.try(metier.Call{ID: "q", Tool: "run_skill_script", Args: []byte(`{"skill":"demo","path":"scripts/a.sh"}`)}); asks != nil {
				t.Fatalf("%s: asks again: %s", tt.tier, asks.Question.Text)
			}
		}
		r := result(t, o)
		if r.Level != "L2" || strings.Contains(r.Stdout, "network") != (tt.hosts != nil) {
			t.Errorf("%s: %+v", tt.tier, r)
		}
		if ev := events[event.ScriptExecuted](w); len(ev) != 1 || ev[0].Source != tt.tier.Or() || ev[0].Target != "sandbox" || ev[0].Level != "L2" || (ev[0].Network != "") != (tt.hosts != nil) {
			t.Errorf("%s is recorded as %+v", tt.tier, ev)
		}
	}
	// For hosts that are not granted, a user's skill causes a question and a
	// third-party skill is refused.
	for tier, want := range map[policy.Tier]string{policy.User: "asks", policy.ThirdParty: "network_not_allowed"} {
		w := newFixture(t, setup{profile: agentRuntime, tier: tier, set: func(s *settings.Settings) {
			s.Policy.AllowedTools = settings.AllowedToolsIgnore
			s.Exec.Network = settings.NetworkOn
		},
			grants: func(g *policy.Grants) { g.Network = policy.NetworkTiered }}, files)
		o, asks := w.try(metier.Call{ID: "q", Tool: "run_skill_script", Args: []byte(`{"skill":"demo","path":"scripts/a.sh"}`)})
		if got := map[bool]string{true: "asks", false: o.Code()}[asks != nil]; got != want || len(w.box.jobs) > 0 {
			t.Errorf("%s: %s, want %s", tier, got, want)
		}
	}
}

// Each stage works if the settings of the others disable them.
//
// req: C-091
func TestStagesStandAlone(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n", "references/r.md": "the reference\n"})
	files["skills/Broken/SKILL.md"] = "---\nname: other\n---\n"
	quiet := func(s *settings.Settings) { // nothing is shown, loaded or run
		s.Catalog.Place, s.Activate.Ways, s.Exec.Scripts = settings.CatalogPlaceNone, nil, settings.ScriptsOff
		s.Policy.AllowedTools = settings.AllowedToolsIgnore
	}
	offered := func(w *fixture) (names []string) {
		for _, s := range w.s.Offer(t.Context()) {
			names = append(names, s.Canonical)
		}
		return names
	}
	only := func(change func(*settings.Settings)) func(*settings.Settings) {
		return func(s *settings.Settings) {
			quiet(s)
			change(s)
		}
	}

	// Registry, validation and prompt.
	w := newFixture(t, setup{profile: agentRuntime, idle: true, set: only(func(s *settings.Settings) { s.Catalog.Place = settings.CatalogPlaceSystem })}, files)
	c := w.s.Catalog(t.Context())
	if !strings.Contains(c.Text, "demo") || strings.Contains(c.Text, "other") || strings.Join(offered(w), " ") != "bash" {
		t.Errorf("told %q, offered %q", c.Text, offered(w))
	}
	var refused []string
	for _, sk := range w.s.Snapshot().All() {
		if sk.State == metier.Refused {
			for _, d := range sk.Diagnostics {
				refused = append(refused, sk.ID.String()+" "+d.Code)
			}
		}
	}
	if diff := cmp.Diff([]string{"r:Broken name-directory-mismatch", "r:Broken missing-description"}, refused); diff != "" {
		t.Errorf("refused: %s", diff)
	}

	// Resolver and audit.
	w = newFixture(t, setup{profile: agentRuntime, idle: true, set: only(func(s *settings.Settings) { s.Activate.Ways = settings.Set[settings.Way]{settings.WayLoadTool} })}, files)
	if o, _ := w.call("load_skill", map[string]any{"name": "demo"}); o.Code() != "" || len(events[event.SkillActivated](w)) != 1 || w.s.Catalog(t.Context()).Text != "" {
		t.Errorf("load: %s", o.Text())
	}
	if o, err := w.s.Read(t.Context(), "demo", "references/r.md", 0); err != nil || o.Code() != "" || len(events[event.ResourceRead](w)) != 1 {
		t.Errorf("read: %s, %v", o.Text(), err)
	}
	if o := w.run("scripts/a.sh"); o.Code() != "unknown_tool" {
		t.Errorf("scripts are off: %q", o.Code())
	}
	if o, _ := w.call("bash", map[string]any{"command": "ls /skills 2>&1; true"}); o.Code() != "" || strings.Contains(result(t, o).Stdout, "demo") {
		t.Errorf("scripts are off, and commands see them: %s", o.Text())
	}

	// Bridge and guard.
	files["skills/demo/SKILL.md"] = "---\nname: demo\ndescription: Use when scripts are tried.\nallowed-tools: run_skill_script\n---\n"
	w = newFixture(t, setup{profile: agentRuntime, set: only(func(s *settings.Settings) {
		s.Exec.Scripts, s.Policy.AllowedTools = settings.ScriptsTiered, settings.AllowedToolsEnforce
	})}, map[string]string{"skills/demo/SKILL.md": files["skills/demo/SKILL.md"], "skills/demo/scripts/a.sh": files["skills/demo/scripts/a.sh"]})
	if r := w.ran("scripts/a.sh"); r.Stdout != "ran\n" {
		t.Errorf("bridge: %+v", r)
	}
	if o, _ := w.call("bash", map[string]any{"command": "true"}); o.Code() != policy.CodeNotNarrowed || !strings.Contains(o.Text(), "demo") {
		t.Errorf("guard: %s", o.Text())
	}

	// Tiers.
	w = newFixture(t, setup{profile: agentRuntime, tier: policy.ThirdParty, set: only(func(s *settings.Settings) { s.Exec.Scripts = settings.ScriptsTiered })},
		map[string]string{"skills/demo/SKILL.md": files["skills/demo/SKILL.md"], "skills/demo/scripts/a.sh": files["skills/demo/scripts/a.sh"]})
	if _, asks := w.try(metier.Call{ID: "q", Tool: "run_skill_script", Args: []byte(`{"skill":"demo","path":"scripts/a.sh"}`)}); asks == nil {
		t.Error("a stranger's script was not asked for")
	}
	if o, _ := w.call("bash", map[string]any{"command": "true"}); o.Code() == policy.CodeNotNarrowed {
		t.Errorf("allowed-tools are off, and they count: %s", o.Text())
	}
	w = newFixture(t, setup{profile: agentRuntime, tier: policy.Org, set: only(func(s *settings.Settings) { s.Exec.Scripts = settings.ScriptsTiered })},
		map[string]string{"skills/demo/SKILL.md": files["skills/demo/SKILL.md"], "skills/demo/scripts/a.sh": files["skills/demo/scripts/a.sh"]})
	if r := w.ran("scripts/a.sh"); r.Stdout != "ran\n" || events[event.ScriptExecuted](w)[0].Source != policy.Org {
		t.Errorf("tiers: %+v", r)
	}
}
