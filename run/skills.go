package run

import (
	"cmp"
	"encoding/json"
	"slices"

	"metier/event"
	"metier/policy"
	"metier/record"
	"metier/registry"
	"metier/settings"
)

// The types of the artifacts. The first two are what the sources name and hold
// in every profile.
const (
	typeRegistry    = "cf-harness.skill-registry"
	typeActivations = "cf-harness.skill-activations"
	typePrefix      = "metier."
)

// promptRole is the role of everything that comes from a skill, in every artifact.
const promptRole = string(policy.Context)

// Registry is skill-registry.json: the skills as last indexed in the session, with the files of
// those that have been used since.
type Registry struct {
	Type              string            `json:"type"`
	Version           int               `json:"version"`
	RunID             string            `json:"runId"`
	GeneratedAt       string            `json:"generatedAt"`
	SkillsRoot        string            `json:"skillsRoot"`
	SandboxSkillsRoot string            `json:"sandboxSkillsRoot"`
	Roots             json.RawMessage   `json:"roots"`
	Skills            []json.RawMessage `json:"skills"`
	Diagnostics       []json.RawMessage `json:"diagnostics"`
	Others            json.RawMessage   `json:"others"`
	Gap               *Gap              `json:"content,omitempty"` // the registry was erased from the record
}

// registry reads the newest registry in the log, and its skills by ID.
func (p *projector) registry(fresh bool) (Registry, error) {
	out := emptyRegistry()
	out.Type, out.Version, out.RunID = typeRegistry, 1, p.h.id
	e, at, ok := last[event.SkillsDiscovered](p.h)
	if !ok {
		return out, nil
	}
	out.GeneratedAt = stamp(at.At)
	var x *index
	if fresh {
		x = knownIndex(e.Registry.Digest)
	}
	if x == nil {
		var b []byte
		var err error
		b, out.Gap = p.c.load(e.Registry)
		if p.c.err != nil || out.Gap != nil {
			return out, p.c.err
		}
		if x, err = indexOf(e.Registry.Digest, b); err != nil {
			return out, err
		}
	}
	id, when := out.RunID, out.GeneratedAt
	out = x.list
	out.Type, out.Version, out.RunID, out.GeneratedAt, out.Gap = typeRegistry, 1, id, when, nil
	if !p.fillIndexes(&out, x.place) {
		p.index, p.skills = x, x.skills
	}
	return out, p.c.err
}

// fillIndexes replaces the plain entries of skills whose files were indexed on first use. It
// reports whether there were any.
func (p *projector) fillIndexes(r *Registry, place map[string]int) (filled bool) {
	for _, f := range p.h.facts {
		e, ok := f.event.(event.ResourcesIndexed)
		if !ok {
			continue
		}
		i, known := place[e.SkillID]
		if !known {
			continue
		}
		b, gap := p.c.load(e.Registry)
		switch {
		case gap != nil:
			p.gap(f.Seq, gap)
		case json.Valid(b):
			if !filled {
				r.Skills, filled = slices.Clone(r.Skills), true // others have the same list
			}
			r.Skills[i] = plain(b)
		}
	}
	return filled
}

// lookups returns the registry's skills by ID.
func (r Registry) lookups() (map[string]registry.Skill, error) {
	skills, err := r.List()
	return registry.List{Skills: skills}.ByID(), err
}

// List returns the skills of the registry.
func (r Registry) List() ([]registry.Skill, error) {
	out := make([]registry.Skill, len(r.Skills))
	for i, raw := range r.Skills {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, badIndex(err)
		}
	}
	return out, nil
}

// Unbound reports whether the record lacks the list of skills.
func (r Registry) Unbound() bool { return r.Gap != nil || r.GeneratedAt == "" }

// empty reports whether the run did not involve skills. Such a run has no skill artifacts.
func (r Registry) empty() bool {
	return r.Gap == nil && r.SkillsRoot == "" && len(r.Skills) == 0 && (string(r.Roots) == "[]" || string(r.Roots) == "null")
}

// Activations is skill-activations.json.
type Activations struct {
	Type        string       `json:"type"`
	Version     int          `json:"version"`
	RunID       string       `json:"runId"`
	Activations []Activation `json:"activations"`
}

// Activation records that one skill's instructions entered the run. Source is the activation
// source, and Tier the skill's trust tier.
type Activation struct {
	Name             string     `json:"name"`
	SkillID          string     `json:"skillId"`
	Source           string     `json:"source"`
	Tier             string     `json:"tier"`
	RunID            string     `json:"runId"`
	SessionID        string     `json:"sessionId"`
	TaskID           string     `json:"taskId"`
	OutputID         string     `json:"outputId"` // the call
	SkillPath        string     `json:"skillPath"`
	SkillDir         string     `json:"skillDir"`
	SandboxSkillPath string     `json:"sandboxSkillPath"`
	SandboxSkillDir  string     `json:"sandboxSkillDir"`
	Digest           string     `json:"digest"`
	Tree             string     `json:"tree"`
	DigestChanged    bool       `json:"digestChanged"`
	AllowedTools     []string   `json:"allowedTools"` // null: none declared
	ActivatedAt      string     `json:"activatedAt"`
	CFCPromptRole    string     `json:"cfcPromptRole"`
	Text             record.Ref `json:"text"` // the block as the model was given it
}

func (p *projector) activations() []Activation {
	out := []Activation{}
	for _, f := range p.h.facts {
		if e, ok := f.event.(event.SkillActivated); ok {
			out = append(out, p.activation(e, f))
		}
	}
	return out
}

func (p *projector) activation(e event.SkillActivated, f fact) Activation {
	a := Activation{Name: e.Name, SkillID: e.SkillID, Source: e.ActivationSource, Tier: string(e.Source.Or()), RunID: p.h.id, SessionID: e.SessionID,
		TaskID: e.TaskID, OutputID: e.Call, Digest: e.Hash, Tree: e.Tree, DigestChanged: e.DigestChanged, AllowedTools: e.AllowedTools,
		ActivatedAt: stamp(f.At), CFCPromptRole: promptRole, Text: e.Text}
	if e.Declared && a.AllowedTools == nil {
		a.AllowedTools = []string{}
	}
	if s, ok := p.skills[e.SkillID]; ok {
		a.SkillPath, a.SkillDir, a.SandboxSkillPath, a.SandboxSkillDir = s.SkillPath, s.SkillDir, s.SandboxSkillPath, s.SandboxSkillDir
		return a
	}
	a.SkillPath, a.SkillDir, a.SandboxSkillPath, a.SandboxSkillDir = e.HostPath, dirOf(e.HostPath), e.Path, e.Dir
	return a
}

func dirOf(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' || p[i] == '\\' {
			return p[:i]
		}
	}
	return ""
}

// Reads is skill-resource-reads.json.
type Reads struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	RunID   string `json:"runId"`
	Reads   []Read `json:"reads"`
}

// Failure is why a read or a script failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Read is one call that read a skill's file, including failed reads. Unknown values are null.
type Read struct {
	OutputID              string          `json:"outputId"`
	RunID                 string          `json:"runId"`
	SkillName             string          `json:"skillName"`
	SkillID               string          `json:"skillId"`
	Path                  string          `json:"path"`
	Status                string          `json:"status"` // read, binary, error
	ReadAt                string          `json:"readAt"`
	CFCPromptRole         string          `json:"cfcPromptRole"`
	Kind                  *string         `json:"kind"`
	ResourcePath          *string         `json:"resourcePath"`
	SandboxResourcePath   *string         `json:"sandboxResourcePath"`
	RegistryDigest        *string         `json:"registryDigest"`
	ObservedDigest        *string         `json:"observedDigest"`
	DigestMatchesRegistry *bool           `json:"digestMatchesRegistry"`
	RegistrySizeBytes     *int64          `json:"registrySizeBytes"`
	ObservedSizeBytes     *int64          `json:"observedSizeBytes"`
	ContentKind           *string         `json:"contentKind"`
	MaxBytes              int             `json:"maxBytes"`
	Truncated             bool            `json:"truncated"`
	Late                  bool            `json:"late"`
	Diagnostics           json.RawMessage `json:"diagnostics"`
	Error                 *Failure        `json:"error"`
}

// reads lists every read: the recorded ones, and the calls of the reading tool that were denied
// before a read.
func (p *projector) reads() []Read {
	if p.readList != nil {
		return p.readList
	}
	out := []Read{}
	recorded := map[string]bool{}
	for _, f := range p.h.facts {
		switch e := f.event.(type) {
		case event.ResourceRead:
			recorded[e.Call] = true
			out = append(out, p.read(e, f))
		case event.ToolResult:
			if e.Tool == settings.ToolReadSkillResource && !recorded[e.ID] {
				out = append(out, p.refusedRead(e, f))
			}
		}
	}
	p.readList = out
	return out
}

func (p *projector) read(e event.ResourceRead, f fact) Read {
	r := Read{OutputID: e.Call, RunID: p.h.id, SkillName: e.Name, SkillID: e.SkillID, Path: e.Path, Status: e.Status, ReadAt: stamp(f.At),
		CFCPromptRole: promptRole, Kind: optional(e.Kind), RegistryDigest: optional(e.RegistryDigest), ObservedDigest: optional(e.ObservedDigest),
		DigestMatchesRegistry: e.Matches, RegistrySizeBytes: e.RegistrySize, ObservedSizeBytes: e.ObservedSize,
		ContentKind: optional(e.ContentKind), MaxBytes: e.MaxBytes, Truncated: e.Truncated, Late: e.Late, ResourcePath: optional(e.HostPath)}
	for _, file := range p.skills[e.SkillID].Resources {
		if file.Path == e.Path {
			r.ResourcePath, r.SandboxResourcePath = optional(file.ResourcePath), optional(file.SandboxResourcePath)
		}
	}
	if r.SandboxResourcePath == nil && e.ObservedDigest != "" {
		if d := p.skills[e.SkillID].SandboxSkillDir; d != "" {
			r.SandboxResourcePath = optional(d + "/" + e.Path)
		}
	}
	if e.Code != "" {
		r.Error = failed(e.Code)
	}
	var detail struct {
		Diagnostics json.RawMessage `json:"diagnostics"`
	}
	p.decode(0, p.returned[e.Call].Detail, &detail)
	if r.Diagnostics = plain(detail.Diagnostics); r.Diagnostics == nil || string(r.Diagnostics) == "null" {
		r.Diagnostics = json.RawMessage("[]")
	}
	return r
}

func (p *projector) refusedRead(e event.ToolResult, f fact) Read {
	var args struct {
		Skill, Name, Path string
		MaxBytes          int
	}
	p.args(e.ID, &args)
	return Read{OutputID: e.ID, RunID: p.h.id, SkillName: cmp.Or(args.Skill, args.Name), Path: args.Path, MaxBytes: args.MaxBytes, Status: "error", ReadAt: stamp(f.At),
		CFCPromptRole: promptRole, Diagnostics: json.RawMessage("[]"), Error: failed(e.Code)}
}
