package config

import (
	"maps"
	"slices"

	"metier/policy"
	"metier/settings"
)

// tools are the tools of this build, with what they do.
var tools = map[string]policy.Effect{
	settings.ToolReadFile: policy.Read, settings.ToolListFiles: policy.Read, settings.ToolSearchFiles: policy.Read,
	settings.ToolWriteFile: policy.Write, settings.ToolEditFile: policy.Write,
	settings.ToolLoadSkill: policy.Read, settings.ToolReadSkillResource: policy.Read,
	settings.ToolSearchSkills: policy.Read, settings.ToolListSkills: policy.Read, settings.ToolLoadContent: policy.Read,
	settings.ToolRunSkillScript: policy.SideEffect, settings.ToolBash: policy.SideEffect, settings.ToolWebFetch: policy.SideEffect,
	settings.ToolDelegateTask: policy.SideEffect, settings.ToolDescribeHandle: policy.Read,
}

// ToolEffect returns what a tool of this build does. ok is false for other names.
func ToolEffect(name string) (e policy.Effect, ok bool) {
	e, ok = tools[name]
	return e, ok
}

// ToolNames lists the tools of this build.
func ToolNames() []string { return slices.Sorted(maps.Keys(tools)) }
