package cli

import (
	"slices"
	"strings"

	"metier/engine"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// allowScripts returns how to allow the scripts that a run was denied, or "". If the run has a run
// file, flags would replace its lists, so the keys of the file are named.
func allowScripts(r result, f runFlags) string {
	var tools, scripts []string
	for _, d := range r.Denied.Scripts {
		if d.Code == policy.CodeRefused && !r.batch {
			continue // a user said no
		}
		if d.Code == policy.CodeToolNotAllowed && len(tools) == 0 {
			if tools = []string{settings.ToolRunSkillScript}; len(f.allowTools) == 0 && f.file == "" {
				tools = []string{engine.ToolsDefault, settings.ToolRunSkillScript}
			}
		}
		if !slices.Contains(f.scripts, d.Entry) && !slices.Contains(scripts, d.Entry) {
			scripts = append(scripts, d.Entry)
		}
	}
	if len(tools)+len(scripts) == 0 {
		return ""
	}
	if f.file == "" {
		return "to allow the denied scripts, start a new run with" + oneLine(flagged("--allow-tool", tools)+flagged("--allow-skill-script", scripts))
	}
	var keys []string
	if len(tools) > 0 {
		keys = append(keys, "add "+strings.Join(tools, ", ")+" to allow_tools")
	}
	if len(scripts) > 0 {
		keys = append(keys, "add "+oneLine(strings.Join(scripts, ", "))+" to allow_skill_scripts")
	}
	return "to allow the denied scripts, " + strings.Join(keys, ", and ") + " in " + oneLine(f.file) + ", and start a new run"
}

// flagged returns a flag for each value, as typed in a shell.
func flagged(flag string, values []string) (words string) {
	for _, v := range values {
		words += " " + flag + " " + termtext.Word(v)
	}
	return words
}
