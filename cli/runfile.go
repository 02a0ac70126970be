package cli

import (
	"path/filepath"
	"strings"

	"metier/internal/yaml"
)

// runFile is a run written down: everything the flags of `metier run` say, and
// phases, which flags cannot say. Paths are relative to the file's folder. Who
// names the file is the operator, so it may widen what the profile allows.
type runFile struct {
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
	Phases       []phase           `yaml:"phases"`
}

// phase is one run of several, each with its own skills, tools and prompt
//
type phase struct {
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

// files are the files that the run file names, those of all phases among them: a
// phase must not write what a later one, or the next run, begins with.
func (r runFile) files() []string {
	out := []string{r.PromptFile, r.Script, r.OutputSchema, scriptOf(r.Model)}
	for _, ph := range r.Phases {
		out = append(out, ph.PromptFile, ph.Script, scriptOf(ph.Model))
	}
	return out
}

// readRunFile reads a run file and makes its paths absolute.
func readRunFile(path string) (runFile, error) {
	var r runFile
	b, err := readNamed(path, maxConfig)
	if err != nil {
		return r, wrong("run_file_unreadable", "give the path of a run file, see docs/RUNS.md", "read the run file: %w", err)
	}
	if err := yaml.Decode(b, &r); err != nil {
		return r, wrong("run_file_invalid", "docs/RUNS.md lists every key of a run file", "%s:%w", path, err)
	}
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
		if p.Name == "" || seen[safeID(p.Name)] {
			return r, wrong("run_file_invalid", "give every phase a name of its own; letters, digits, _ and - count", "%s: phase %d has no name, or one that is taken", path, i+1)
		}
		seen[safeID(p.Name)] = true
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
