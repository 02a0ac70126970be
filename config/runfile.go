package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"metier"
	"metier/internal/namedfile"
	"metier/internal/yaml"
	"metier/model/provider"
)

// RunFile describes a run: the options of `metier run`, and phases. The operator
// names it, so it can widen what the profile allows.
type RunFile struct {
	Prompt       string            `yaml:"prompt"`
	PromptFile   string            `yaml:"prompt_file"`
	Workspace    string            `yaml:"workspace"`
	Cwd          string            `yaml:"cwd"`
	Mounts       []string          `yaml:"mounts"`
	SkillsRoots  []string          `yaml:"skills_root"`
	Harness      []string          `yaml:"harness"`
	Skills       []string          `yaml:"skill"`
	Profile      string            `yaml:"profile"`
	Set          map[string]string `yaml:"set"`
	NoCatalog    bool              `yaml:"no_skill_catalog"`
	AllowTools   []string          `yaml:"allow_tools"`
	Scripts      []string          `yaml:"allow_skill_scripts"`
	Hosts        []string          `yaml:"allow_hosts"`
	Subagents    []string          `yaml:"allow_subagent_profiles"`
	SubagentDirs []string          `yaml:"subagent_profiles"`
	Model        string            `yaml:"model"`
	Script       string            `yaml:"script"` // scripted model, used when no other model is at hand
	Mode         string            `yaml:"mode"`
	OutputMode   string            `yaml:"output_mode"`
	OutputSchema string            `yaml:"output_schema"`
	ResultJSON   string            `yaml:"result_json"`
	MaxTurns     int               `yaml:"max_turns"`
	MaxTokens    int64             `yaml:"max_tokens"`
	OnDrift      string            `yaml:"on_drift"`
	Artifacts    string            `yaml:"artifact_root"`
	Phases       []Phase           `yaml:"phases"`

	lines map[string]int // of keys; those of phases are written phase/key, with the index
}

// Line returns the line of a key, or 0 if the file does not have it. phase is the index of the phase
// that the key is in, or -1.
func (r RunFile) Line(phase int, key string) int {
	if phase >= 0 {
		key = strconv.Itoa(phase) + "/" + key
	}
	return r.lines[key]
}

// keyLines returns the lines of all keys of a run file that was decoded.
func keyLines(src []byte) map[string]int {
	out := map[string]int{}
	n, err := yaml.Parse(src, nil)
	if err != nil {
		return out
	}
	for _, e := range n.Entries {
		out[e.Key.Text] = e.Key.Line
		if e.Key.Text != "phases" {
			continue
		}
		for i, ph := range e.Value.Items {
			for _, in := range ph.Entries {
				out[strconv.Itoa(i)+"/"+in.Key.Text] = in.Key.Line
			}
		}
	}
	return out
}

// Phase is one run of several, each with its own skills, tools, and prompt.
type Phase struct {
	Name       string   `yaml:"name"`
	Skills     []string `yaml:"skill"`
	Prompt     string   `yaml:"prompt"`
	PromptFile string   `yaml:"prompt_file"`
	AllowTools []string `yaml:"allow_tools"`
	Mode       string   `yaml:"mode"`
	MaxTurns   int      `yaml:"max_turns"`
	Model      string   `yaml:"model"`
	Script     string   `yaml:"script"`
}

// Files lists the files that a run file and all its phases name. No phase may
// write to them, because a later phase or run reads them.
func (r RunFile) Files() []string {
	out := []string{r.PromptFile, r.Script, r.OutputSchema, provider.ScriptOf(r.Model)}
	for _, ph := range r.Phases {
		out = append(out, ph.PromptFile, ph.Script, provider.ScriptOf(ph.Model))
	}
	return out
}

// ReadRunFile reads a run file and makes its paths absolute.
func ReadRunFile(path string) (RunFile, error) {
	var r RunFile
	b, err := namedfile.Read(path, maxFile)
	if err != nil {
		return r, metier.Errorf(metier.Invalid, "run_file_unreadable", "specify the path to a run file; see docs/RUNS.md", "read the run file: %w", err)
	}
	if err := yaml.Decode(b, &r); err != nil {
		return r, metier.Errorf(metier.Invalid, "run_file_invalid", "docs/RUNS.md lists every key of a run file", "%s:%w", path, err)
	}
	r.lines = keyLines(b)
	dir := filepath.Dir(path)
	abs := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	if r.Workspace == "" {
		r.Workspace = "."
	}
	for _, p := range []*string{&r.PromptFile, &r.Workspace, &r.Script, &r.OutputSchema, &r.ResultJSON, &r.Artifacts} {
		abs(p)
	}
	for i := range r.SkillsRoots {
		abs(&r.SkillsRoots[i])
	}
	for i := range r.Harness {
		abs(&r.Harness[i])
	}
	for i := range r.SubagentDirs {
		abs(&r.SubagentDirs[i])
	}
	for i, m := range r.Mounts {
		r.Mounts[i] = mountFrom(dir, m)
	}
	seen := map[string]bool{}
	for i := range r.Phases {
		p := &r.Phases[i]
		abs(&p.PromptFile)
		abs(&p.Script)
		why := "has no name"
		if p.Name != "" {
			why = fmt.Sprintf("has the same name as another phase: %q", p.Name)
		}
		if p.Name == "" || seen[SafeID(p.Name)] {
			return r, metier.Errorf(metier.Invalid, "run_file_invalid", "give each phase a unique name of letters, digits, _, and -", "%s: phase %d %s", path, i+1, why)
		}
		seen[SafeID(p.Name)] = true
	}
	return r, nil
}

// mountFrom makes the source of a mount relative to the run file's folder.
func mountFrom(dir, mount string) string {
	parts := strings.Split(mount, ",")
	for i, p := range parts {
		if src, ok := strings.CutPrefix(p, "source="); ok && src != "" && !filepath.IsAbs(src) {
			parts[i] = "source=" + filepath.Join(dir, src)
		}
	}
	return strings.Join(parts, ",")
}

// SafeID returns a phase's name as part of a run ID, with _ for all characters
// that a run ID cannot have.
func SafeID(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}
