package cli

import (
	"regexp"
	"strings"
)

// flagOf maps the field names in errors, hints, and notices of other packages to flags.
var flagOf = map[string]string{
	"Access.Hosts":                   "--name",
	"Access.Origins":                 "--allow-origin",
	"AnswerRequest.Question":         "--question",
	"AnswerRequest.Scope":            "--scope",
	"ExportOptions.Unverified":       "--unverified",
	"Hooks.Verbose":                  "--verbose",
	"Plan.AcceptSigners":             "--accept-signer",
	"Plan.AllowFindings":             "--allow-findings",
	"Request.Agents":                 "--agent",
	"Request.All":                    "--all",
	"Request.Artifacts":              "--artifact-root",
	"Request.Closed":                 "--token-file",
	"Request.Batch":                  "--output-mode",
	"Request.Browser.Endpoint":       "--browser-endpoint",
	"Request.Browser.Origin":         "--browser-origin",
	"Request.Browser.Until":          "--browser-until",
	"Request.Force":                  "--force",
	"Request.Harnesses":              "--harness",
	"Request.Cwd":                    "--cwd",
	"Request.Hosts":                  "--allow-host",
	"Request.Layers":                 "--set",
	"Request.MaxTokens":              "--max-tokens",
	"Request.MaxTurns":               "--max-turns",
	"Request.Mode":                   "--mode",
	"Request.Model":                  "--model",
	"Request.Mounts":                 "--mount",
	"Request.Policies":               "--policy",
	"Request.Offline":                "--offline",
	"Request.Output":                 "--output-schema",
	"Request.Profile":                "--profile",
	"Request.Prompt":                 "--prompt",
	"Request.PromptRole":             "--prompt-slot-role",
	"Request.Roots":                  "--skills-root",
	"Request.Sandbox":                "--sandbox",
	"Request.Scripts":                "--allow-skill-script",
	"Request.Servers":                "--mcp-config",
	"Request.Skills":                 "--skill",
	"Request.SkipRequirements":       "--skip-requirements",
	"Request.Source":                 "SOURCE",
	"Request.Subagents":              "--allow-subagent-profile",
	"Request.Target":                 "TARGET",
	"Request.Tools":                  "--allow-tool",
	"Request.Workspace":              "--workspace",
	"ResumeOptions.Browser.Endpoint": "--browser-endpoint",
	"ResumeOptions.Browser.Until":    "--browser-until",
	"ResumeOptions.Model":            "--model",
	"ResumeOptions.OnDrift":          "--on-drift",
	"ResumeOptions.TrustRecord":      "--trust-record",
	"SignRequest.Key":                "--key",
}

// fieldName matches a field, and the values that follow it as in Request.Tools=default,bash.
var fieldName = regexp.MustCompile(`\b(?:Access|AnswerRequest|ExportOptions|Hooks|Plan|Request|ResumeOptions|SignRequest)(?:\.[A-Z][A-Za-z]*)+(?:=\w+(?:,\w+)*)?`)

// asFlags replaces the names of fields with those of their flags, and fields that have values with
// one flag for each value.
func asFlags(text string) string {
	return fieldName.ReplaceAllStringFunc(text, func(found string) string {
		field, values, set := strings.Cut(found, "=")
		flag, ok := flagOf[field]
		switch {
		case !ok:
			return found
		case !set:
			return flag
		}
		return flag + " " + strings.Join(strings.Split(values, ","), " "+flag+" ")
	})
}
