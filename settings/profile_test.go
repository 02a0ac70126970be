package settings_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/settings"
)

func resolved(t *testing.T, profile string) settings.Settings {
	t.Helper()
	l, err := settings.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := settings.Resolve(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func row(t *testing.T, name string) settings.Row {
	t.Helper()
	for _, r := range settings.Table() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no setting %s", name)
	return settings.Row{}
}

func TestEveryProfileSetsEverySetting(t *testing.T) {
	t.Parallel()
	want := []string{"default", "agent-harness", "agent-runtime", "cf-harness", "keen", "project-skills"}
	if d := cmp.Diff(want, settings.Profiles()); d != "" {
		t.Fatalf("profiles (-want +got):\n%s", d)
	}
	for _, p := range settings.Profiles() {
		l, err := settings.Profile(p)
		if err != nil {
			t.Fatal(err)
		}
		s, origins, err := settings.Resolve(l)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if !l.Operator || len(l.Values) != len(settings.Table()) {
			t.Errorf("%s: operator %v, %d values of %d", p, l.Operator, len(l.Values), len(settings.Table()))
		}
		for _, r := range settings.Table() {
			v, ok := l.Values[r.Name]
			if !ok {
				t.Errorf("%s does not set %s", p, r.Name)
			}
			if got := r.Get(&s); got != v {
				t.Errorf("%s: %s is %q, the file says %q: write the canonical form", p, r.Name, got, v)
			}
			if o := origins[r.Name]; o.Layer != "profile:"+p || o.Value != v {
				t.Errorf("%s: origin of %s is %+v", p, r.Name, o)
			}
		}
	}
}

// TestDecisiveCells checks the specified values of the profiles, cell by cell.
func TestDecisiveCells(t *testing.T) {
	t.Parallel()
	order := []string{"cf-harness", "keen", "agent-runtime", "agent-harness", "project-skills", "default"}
	all := map[string]settings.Settings{}
	for _, p := range order {
		all[p] = resolved(t, p)
	}
	cells := []struct {
		setting string
		want    [6]string
	}{
		{"allowed_tools", [6]string{"narrow", "ignore", "enforce+preapprove", "ignore", "ignore", "narrow"}},
		{"activation", [6]string{"preload, load_tool", "read_file, slash", "load_tool, read_file", "load_tool, session_start", "load_tool", "preload, load_tool, read_file, slash"}},
		{"validation", [6]string{"lenient", "lenient", "strict", "minimal", "minimal", "lenient"}},
		{"identity", [6]string{"name", "folder", "equal", "path", "name", "name"}},
		{"match", [6]string{"exact", "exact", "nfkc", "exact", "casefold", "casefold"}},
		{"missing_name", [6]string{"reject", "folder", "reject", "reject", "reject", "folder"}},
		{"missing_description", [6]string{"skip", "folder", "reject", "reject", "skip", "first_paragraph"}},
		{"precedence", [6]string{"roots", "project, user", "builtin, org, user, third_party", "roots", "db, roots", "db, project, user, org, builtin, third_party"}},
		{"protect_names", [6]string{"no", "no", "no", "no", "no", "yes"}},
		{"roots", [6]string{"none", "auto:project, auto:home", "none", "harness", "env, db", "builtin, auto:org, auto:project, auto:home"}}, // /etc/metier/skills belongs to the operator, like a named root
		{"root_scope", [6]string{"workspace", "anywhere", "anywhere", "anywhere", "anywhere", "anywhere"}},
		{"state_store", [6]string{"none", "keen_file", "user_file", "none", "none", "user_file"}},
		{"root_families", [6]string{"agents", "agents", "agents", "agents", "agents, codex", "agents, claude"}},
		{"reload", [6]string{"snapshot", "per_turn", "watch", "per_call", "tagged", "auto"}},
		{"inject_role", [6]string{"context", "user", "context", "system", "tool_result", "context"}},
		{"resource_scope", [6]string{"indexed", "folder", "one_level", "folder", "folder", "indexed"}},
		{"scripts", [6]string{"exact", "off", "tiered", "any_bundled", "off", "exact"}},
		{"drift_batch", [6]string{"fail", "ignore", "fail", "ignore", "ignore", "fail"}},
		{"drift_interactive", [6]string{"warn", "ignore", "warn", "ignore", "ignore", "warn"}},
		{"install", [6]string{"off", "off", "local, zip", "local", "registry", "local, zip, registry"}},
		{"install_sources", [6]string{"listed", "any", "any", "any", "any", "any"}},
		{"install_signature", [6]string{"optional", "optional", "optional", "optional", "optional", "optional"}},
		{"paths", [6]string{"sandbox", "host", "host", "skill", "repo", "auto"}},
	}
	for _, c := range cells {
		r := row(t, c.setting)
		for i, p := range order {
			s := all[p]
			if got := r.Get(&s); got != c.want[i] {
				t.Errorf("%s of %s is %q, want %q", c.setting, p, got, c.want[i])
			}
		}
	}
	for _, c := range []struct{ profile, setting, want string }{
		{"default", "late_files", "mark"},
		{"default", "script_approval", "by_tier"},
		{"default", "install_validation", "strict"},
		{"default", "enforcement_mode", "observe"},
		{"cf-harness", "enforcement_mode", "disabled"},
		{"cf-harness", "host_cdp", "require"},
		{"agent-runtime", "archive_layout", "wrapper"},
		{"agent-runtime", "missing_dependency", "reject"},
		{"agent-runtime", "if_match", "yes"},
		{"cf-harness", "resource_index", "start"},
		{"cf-harness", "read_default", "64000"},
		{"cf-harness", "read_max", "256000"},
		{"cf-harness", "index_root_file", "no"},
		{"cf-harness", "content", "raw"},
		{"agent-runtime", "catalog_format", "xml"},
		{"project-skills", "catalog_max", "50"},
		{"project-skills", "catalog_desc_max", "200"},
		{"project-skills", "tool_load", "skills.load"},
		{"project-skills", "tool_resource", "skills.readFile"},
		{"project-skills", "tool_script", "none"},
		{"project-skills", "tool_reply", "envelope"},
		{"agent-harness", "tool_list", "list_content"},
		{"agent-harness", "group_summary", "warn"},
	} {
		s := all[c.profile]
		if got := row(t, c.setting).Get(&s); got != c.want {
			t.Errorf("%s of %s is %q, want %q", c.setting, c.profile, got, c.want)
		}
	}
	for _, p := range order {
		if s := all[p]; s.Exec.Target != settings.TargetSandbox || s.Policy.SlotRole != settings.SlotRoleDirect {
			t.Errorf("%s: scripts run in %s, typed input is %s", p, s.Exec.Target, s.Policy.SlotRole)
		}
	}
}

// agentRuntime compares values of the profile agent-runtime.
func agentRuntime(t *testing.T, want map[string]string) {
	t.Helper()
	holds(t, "agent-runtime", want)
}

// req: C-003, C-013, C-020
func TestAgentRuntime_Discovery(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"scan": "children", "state_store": "user_file", "file_names": "lower_too", "precedence": "builtin, org, user, third_party", "protect_names": "no"})
}

// req: C-002, C-024, C-032
func TestAgentRuntime_Index(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"resource_index": "activation", "resource_list": "0", "reload": "watch"})
}

// req: C-014, C-015, C-019
func TestAgentRuntime_Names(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"identity": "equal", "match": "nfkc", "name_charset": "unicode", "missing_name": "reject"})
}

// req: C-017, C-018, C-070
func TestAgentRuntime_Frontmatter(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"validation": "strict", "unknown_fields": "reject", "known_extensions": "none", "no_frontmatter": "reject", "missing_description": "reject", "compatibility_max": "500"})
}

// req: C-025, C-026, C-028
func TestAgentRuntime_Catalog(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"catalog_format": "xml", "catalog_place": "system", "catalog_max": "0", "empty_catalog": "silent", "catalog_desc_max": "240", "paths": "host"})
}

// req: C-012, C-029, C-033
func TestAgentRuntime_Activation(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"activation": "load_tool, read_file", "content": "body", "args": "none", "inject_role": "context", "drift_batch": "fail", "guard_allow": "skill_dirs"})
}

// req: C-037, C-066, C-067
func TestAgentRuntime_Reads(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"resource_scope": "one_level", "binary": "base64", "read_max": "5000000", "read_default": "5000000", "read_over": "refuse", "index_root_file": "no", "tool_load": "skills.read", "tool_resource": "skills.read_resource", "tool_reply": "text"})
}

// req: C-004, C-065, C-068
func TestAgentRuntime_Tools(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"tool_list": "skills.list", "tool_script": "skills.run_script", "script_target": "sandbox"})
}

// req: C-043, C-044, C-086
func TestAgentRuntime_Lists(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"allowed_tools": "enforce+preapprove", "allowed_tools_merge": "intersection"})
}

// req: C-040, C-050, C-051
func TestAgentRuntime_Tiers(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"scripts": "tiered", "script_approval": "by_tier", "script_network": "tiered"})
}

// req: C-082, C-083, C-084
func TestAgentRuntime_Scripts(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"scripts": "tiered", "script_approval": "by_tier", "script_network": "tiered", "script_target": "sandbox", "script_stage": "staged_tree", "script_cwd": "skill"})
}

// req: C-054, C-080, C-081
func TestAgentRuntime_Preconditions(t *testing.T) {
	t.Parallel()
	agentRuntime(t, map[string]string{"if_match": "yes", "missing_dependency": "reject"})
}

// The tool list of a run is tested where it is made.
func TestDefaultTools(t *testing.T) {
	t.Parallel()
	want := []string{"read_file", "load_skill", "read_skill_resource", "write_file", "edit_file", "delegate_task"}
	if d := cmp.Diff(want, resolved(t, "cf-harness").Tools.Default); d != "" {
		t.Errorf("cf-harness (-want +got):\n%s", d)
	}
	keen := []string{"read_file", "list_files", "search_files", "write_file", "edit_file"}
	if d := cmp.Diff(keen, resolved(t, "keen").Tools.Default); d != "" {
		t.Errorf("keen (-want +got):\n%s", d)
	}
	r := row(t, "default_tools")
	for _, never := range []string{"bash", "run_skill_script", "web_fetch"} {
		if slices.Contains(r.Values, never) {
			t.Errorf("%s can be a default tool", never)
		}
	}
	for _, p := range settings.Profiles() {
		tools := resolved(t, p).Tools
		names := map[string]string{"load_skill": tools.Load, "read_skill_resource": tools.Resource, "list_skills": tools.List, "search_skills": tools.Search}
		for canonical, name := range names {
			if listed := slices.Contains(tools.Default, canonical); listed != (name != "") {
				t.Errorf("%s: %s is called %q, default tool: %v", p, canonical, name, listed)
			}
		}
	}
}

func TestProfilesFitTogether(t *testing.T) {
	t.Parallel()
	for _, p := range settings.Profiles() {
		s := resolved(t, p)
		if s.Activate.Ways.Has(settings.WayLoadTool) != (s.Tools.Load != "") {
			t.Errorf("%s: activation %v, load tool %q", p, s.Activate.Ways, s.Tools.Load)
		}
		if (s.Catalog.Format == settings.CatalogFormatNone) != (s.Catalog.Place == settings.CatalogPlaceNone) {
			t.Errorf("%s: a catalog without place, or a place without catalog", p)
		}
		if s.Catalog.Place == settings.CatalogPlaceTool && s.Tools.Load == "" {
			t.Errorf("%s: the catalog stands in a tool that does not exist", p)
		}
		if s.Exec.Scripts == settings.ScriptsOff && s.Tools.Script != "" {
			t.Errorf("%s: a script tool that may run nothing", p)
		}
		if s.Read.Default > s.Read.Max {
			t.Errorf("%s: read_default over read_max", p)
		}
	}
}

func TestUnknownProfileNamesThem(t *testing.T) {
	t.Parallel()
	_, err := settings.Profile("ken")
	var e *settings.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(`there is no profile "ken"; did you mean keen?`, e.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if !strings.Contains(e.Hint(), "project-skills") {
		t.Errorf("hint %q names no profiles", e.Hint())
	}
}

func TestProfileIsACopy(t *testing.T) {
	t.Parallel()
	l, err := settings.Profile("keen")
	if err != nil {
		t.Fatal(err)
	}
	l.Values["scan"] = "recursive"
	if s := resolved(t, "keen"); s.Discover.Scan != settings.ScanChildren {
		t.Fatal("a caller changed the profile")
	}
}
