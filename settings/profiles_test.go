package settings_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// holds compares values of a profile.
func holds(t *testing.T, profile string, want map[string]string) {
	t.Helper()
	s, got := resolved(t, profile), map[string]string{}
	for name := range want {
		got[name] = row(t, name).Get(&s)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", profile, d)
	}
}

// req
func TestCfHarness_Catalog(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"catalog_format": "markdown", "catalog_place": "tool", "catalog_max": "0", "catalog_desc_max": "0", "paths": "sandbox"})
}

// req
func TestCfHarness_Evidence(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"inject_role": "context", "prompt_slot_role": "direct-command", "enforcement_mode": "disabled"})
}

// req
func TestCfHarness_Lists(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"allowed_tools": "narrow", "allowed_tools_merge": "intersection"})
	holds(t, "default", map[string]string{"allowed_tools": "narrow", "allowed_tools_merge": "intersection"})
}

// req
func TestCfHarness_Scripts(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"scripts": "exact", "script_approval": "never", "script_target": "sandbox", "script_network": "off", "host_cdp": "require"})
}

// req
func TestProfiles_Injection(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"injection": "event"})
	holds(t, "default", map[string]string{"injection": "block_untrusted"})
}

// req
func TestProfiles_Drift(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"cf-harness", "default"} {
		holds(t, p, map[string]string{"drift_batch": "fail", "drift_interactive": "warn"})
	}
}

// req
func TestCfHarness_Subagents(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"inherit": "listed", "default_tools": "read_file, load_skill, read_skill_resource, write_file, edit_file, delegate_task"})
}

// req
func TestProfiles_Activation(t *testing.T) {
	t.Parallel()
	holds(t, "cf-harness", map[string]string{"activation": "preload, load_tool", "content": "raw"})
	holds(t, "keen", map[string]string{"activation": "read_file, slash"})
}

// req: D-002, D-007, D-008
func TestAgentHarness_Load(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"roots": "harness", "activation": "load_tool, session_start", "inject_role": "system", "catalog_format": "none", "catalog_place": "none", "empty_catalog": "silent"})
}

// req: D-003, D-009, D-011
func TestAgentHarness_Tools(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"tool_list": "list_content", "tool_load": "load_skill", "tool_resource": "load_reference", "tool_script": "run_script", "tool_search": "none",
		"default_tools": "read_file, list_files, search_files, load_skill, read_skill_resource, list_skills, write_file, edit_file"})
}

// req: D-004, D-012, D-022
func TestAgentHarness_Replies(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"content": "raw", "args": "none", "tool_reply": "plain", "show_digest": "no", "binary": "raw", "read_max": "5000000", "read_default": "5000000", "read_over": "refuse", "resource_scope": "folder"})
}

// req: D-013, D-014, D-037
func TestAgentHarness_Paths(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"identity": "path", "match": "exact", "name_charset": "any", "scan": "grouped", "max_depth": "32"})
}

// req: D-016, D-034, D-035
func TestAgentHarness_Checks(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"harness_layout": "auto", "group_summary": "warn", "validation": "minimal", "missing_name": "reject", "missing_description": "reject", "no_frontmatter": "reject"})
}

// req: D-025, D-030, D-031
func TestAgentHarness_Scripts(t *testing.T) {
	t.Parallel()
	holds(t, "agent-harness", map[string]string{"scripts": "any_bundled", "script_approval": "never", "script_target": "sandbox", "script_network": "off", "script_stage": "staged_tree", "script_cwd": "skill",
		"script_runtimes": "bash, sh, deno, python, node, ruby, perl, executable"})
}

// req: C-010
func TestProfiles_Publish(t *testing.T) {
	t.Parallel()
	holds(t, "agent-runtime", map[string]string{"publish": "no"})
	holds(t, "default", map[string]string{"publish": "yes"})
}
