package run

import (
	"cmp"
	"context"
	"encoding/json"

	"metier/event"
)

// toolRunScript is the canonical name of the tool that runs a skill's script.
const toolRunScript = "run_skill_script"

// Scripts is skill-script-executions.json.
type Scripts struct {
	Type       string   `json:"type"`
	Version    int      `json:"version"`
	RunID      string   `json:"runId"`
	Executions []Script `json:"executions"`
}

// Script is one call that ran a script or was refused. What is not known is
// null.
type Script struct {
	OutputID              string          `json:"outputId"`
	RunID                 string          `json:"runId"`
	SkillName             string          `json:"skillName"`
	SkillID               string          `json:"skillId"`
	Path                  string          `json:"path"`
	Status                string          `json:"status"` // executed, error
	ExecutedAt            string          `json:"executedAt"`
	CFCPromptRole         string          `json:"cfcPromptRole"`
	ExecutionTarget       *string         `json:"executionTarget"`
	Runtime               *string         `json:"runtime"`
	Argv                  []string        `json:"argv"`
	Args                  []string        `json:"args"`
	Cwd                   *string         `json:"cwd"`
	RegistryDigest        *string         `json:"registryDigest"`
	ObservedDigest        *string         `json:"observedDigest"`
	DigestMatchesRegistry *bool           `json:"digestMatchesRegistry"`
	RegistrySizeBytes     *int64          `json:"registrySizeBytes"`
	ObservedSizeBytes     *int64          `json:"observedSizeBytes"`
	ExitCode              *int            `json:"exitCode"`
	Diagnostics           json.RawMessage `json:"diagnostics"`
	Error                 *Failure        `json:"error"`
}

// scripts lists the calls of the script tool that returned. The tool's detail
// has the fields of Script under the same names; what it leaves out comes from
// the arguments.
func (p *projector) scripts(ctx context.Context) ([]Script, error) {
	out := []Script{}
	for _, f := range p.h.facts {
		e, ok := f.event.(event.Returned)
		if !ok || e.Tool != toolRunScript {
			continue
		}
		var args struct {
			Skill, Path, Cwd string
			Args             []string
		}
		if err := p.args(ctx, e.ID, &args); err != nil {
			return nil, err
		}
		s := Script{SkillName: args.Skill, Path: args.Path, Args: args.Args, Cwd: optional(args.Cwd)}
		if err := p.detail(ctx, e.ID, &s); err != nil {
			return nil, err
		}
		s.OutputID, s.RunID, s.ExecutedAt, s.CFCPromptRole = e.ID, p.h.id, stamp(f.At), promptRole
		s.Argv, s.Args = some(s.Argv), some(s.Args)
		if s.Status != "executed" || e.Code != "" && s.ExitCode == nil {
			s.Status = "error"
		}
		if s.Status == "error" && s.Error == nil {
			code := cmp.Or(e.Code, "unknown")
			s.Error = &Failure{code, failureText(code)}
		}
		if s.Diagnostics == nil || string(s.Diagnostics) == "null" {
			s.Diagnostics = json.RawMessage("[]")
		}
		out = append(out, s)
	}
	return out, nil
}

// failures words the codes of contracts §2.1. The record holds only codes.
var failures = map[string]string{
	"skill_registry_missing":    "the run has no skill registry",
	"skill_activations_missing": "no skill was activated in this run",
	"skill_not_found":           "no skill has this name",
	"skill_not_activated":       "the skill was not activated in this run",
	"resource_path_invalid":     "a resource path is relative and stays in the skill's folder",
	"resource_not_indexed":      "the file is not in the index of this skill",
	"resource_not_found":        "the file does not exist any more",
	"resource_not_file":         "the path is not a regular file",
	"resource_outside_root":     "the path leaves the skill's folder",
	"resource_too_deep":         "the file lies deeper than the settings allow",
	"resource_too_large":        "the file is larger than may be read",
	"resource_binary":           "the file is not text",
	"resource_not_script":       "the file is not a script",
	"script_path_invalid":       "a script path is relative, normalized and under scripts/",
	"script_not_allowlisted":    "the operator did not allow this script",
	"script_not_indexed":        "the script is not in the index of this skill",
	"script_not_found":          "the script does not exist any more",
	"script_not_file":           "the script is not a regular file",
	"script_outside_root":       "the script leaves the skill's folder",
	"script_snapshot_mismatch":  "the script is not the one that was indexed",
	"unsupported_runtime":       "nothing here can run this script",
	"permission_denied":         "permission denied",
	"tool_not_allowed":          "the operator did not allow the tool",
	"rule_denied":               "a rule of the operator denies the call",
	"script_not_allowed":        "scripts of skills may not run",
	"network_not_allowed":       "the operator did not grant this network",
	"refused":                   "a person said no",
	"skill_denied":              "the operator denied this skill",
	"allowed_tools":             "an active skill's allowed-tools exclude the call",
	"invalid_arguments":         "the arguments are not what the tool takes",
	"outcome_unknown":           "it may or may not have happened",
	"unknown":                   "it failed for a reason that has no code",
}

func failureText(code string) string {
	if t, ok := failures[code]; ok {
		return t
	}
	return code
}
