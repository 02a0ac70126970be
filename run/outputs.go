package run

import (
	"encoding/json"
	"slices"

	"metier/event"
	"metier/policy"
	"metier/settings"
)

// Output is tool-outputs/<outputId>-<toolId>.json: the request of one call, its result, and the
// source of the result.
type Output struct {
	Type          string           `json:"type"`
	Version       int              `json:"version"`
	RunID         string           `json:"runId"`
	OutputID      string           `json:"outputId"`
	ToolID        string           `json:"toolId"`
	Status        string           `json:"status"` // ok, error
	Code          string           `json:"code"`
	Effect        string           `json:"effect"`
	Decision      string           `json:"decision"` // the newest code of policy on the call
	ReturnedAt    string           `json:"returnedAt"`
	CFCPromptRole string           `json:"cfcPromptRole"`
	Label         policy.Label     `json:"label"`
	ActiveSkills  []event.SkillRef `json:"activeSkills"`
	Args          json.RawMessage  `json:"args"`
	ArgsDigest    string           `json:"argsDigest"`
	Content       json.RawMessage  `json:"content"` // what the model was shown
	ContentDigest string           `json:"contentDigest"`
	Detail        json.RawMessage  `json:"detail"` // what the tool says for artifacts
	DetailDigest  string           `json:"detailDigest"`
	Reads         []Read           `json:"reads"`
	Activations   []Activation     `json:"activations"`
	Script        *Script          `json:"script"`  // with all it wrote; null: the call was for none
	Command       *Command         `json:"command"` // the same of a shell command
}

// outputs returns one Output per call that returned, by file name.
func (p *projector) outputs() map[string]func() Output {
	reads, acts, scripts := map[string][]Read{}, map[string][]Activation{}, map[string]Script{}
	for _, r := range p.reads() {
		reads[r.OutputID] = append(reads[r.OutputID], r)
	}
	for _, a := range p.activations() {
		acts[a.OutputID] = append(acts[a.OutputID], a)
	}
	for _, s := range p.scripts() {
		scripts[s.OutputID] = s
	}
	out, names := map[string]func() Output{}, p.outputNames()
	for _, f := range p.h.facts {
		e, ok := f.event.(event.ToolResult)
		if !ok {
			continue
		}
		out[names[e.ID]] = func() Output {
			o := p.output(f, e)
			o.Reads, o.Activations = some(reads[e.ID]), some(acts[e.ID])
			if s, is := scripts[e.ID]; is {
				s.Program = p.withText(s.Program, p.executed[e.ID].Execution)
				o.Script = &s
			}
			return o
		}
	}
	return out
}

// output describes one call and its result.
func (p *projector) output(f fact, e event.ToolResult) Output {
	o := Output{Type: typePrefix + "tool-output", Version: 1, RunID: p.h.id, OutputID: e.ID, ToolID: e.Tool, Status: "ok", Code: e.Code,
		Effect: string(p.started[e.ID].Effect), Decision: p.decided[e.ID].Code, ReturnedAt: stamp(f.At), CFCPromptRole: promptRole, Label: e.Label,
		ActiveSkills: some(e.Active), ContentDigest: e.Content.Digest, DetailDigest: e.Detail.Digest}
	if e.Code != "" {
		o.Status = "error"
	}
	if o.Effect == "" {
		o.Effect = string(p.decided[e.ID].Effect)
	}
	args := p.argsOf(e.ID)
	o.ArgsDigest, o.Args, o.Content, o.Detail = args.Digest, p.c.raw(args), p.c.raw(e.Content), p.c.raw(e.Detail)
	if c, is := p.commands()[e.ID]; is {
		c.Program = p.withText(c.Program, p.executed[e.ID].Execution)
		o.Command = &c
	}
	return o
}

// outputNames returns the names of the files in tool-outputs, by call.
func (p *projector) outputNames() map[string]string {
	out, taken := map[string]string{}, map[string]bool{}
	for _, f := range p.h.facts {
		if e, ok := f.event.(event.ToolResult); ok {
			out[e.ID] = outputName(taken, e.ID, e.Tool)
		}
	}
	return out
}

// Capabilities is capabilities.json: the tools last offered to the model.
type Capabilities struct {
	Type         string          `json:"type"`
	Version      int             `json:"version"`
	RunID        string          `json:"runId"`
	Model        string          `json:"model"`
	Skills       bool            `json:"skills"`
	SkillScripts bool            `json:"skillScripts"`
	ToolNames    []string        `json:"toolNames"`
	ToolsDigest  string          `json:"toolsDigest"`
	Tools        json.RawMessage `json:"tools"`
}

func (p *projector) capabilities() Capabilities {
	c := Capabilities{Type: typePrefix + "capabilities", Version: 1, RunID: p.h.id, Skills: !p.reg.empty(), ToolNames: []string{}, Tools: json.RawMessage("null")}
	if b, _, ok := last[event.RunStarted](p.h); ok {
		c.Model = b.Model
	}
	o, _, ok := last[event.ToolsOffered](p.h)
	if !ok {
		return c
	}
	c.ToolNames, c.ToolsDigest, c.Tools = some(o.Names), o.Tools.Digest, p.c.raw(o.Tools)
	c.SkillScripts = slices.Contains(o.Names, settings.ToolRunSkillScript)
	return c
}

// Manifest is run-manifest.json: the run's configuration.
type Manifest struct {
	Type      string             `json:"type"`
	Version   int                `json:"version"`
	RunID     string             `json:"runId"`
	Build     string             `json:"build"`
	By        string             `json:"by"`
	StartedAt string             `json:"startedAt"`
	Begun     []event.RunStarted `json:"runs"` // of a conversation there are several
	Spec      json.RawMessage    `json:"spec"` // of the newest
}

func (p *projector) manifest() Manifest {
	m := Manifest{Type: typePrefix + "run-manifest", Version: 1, RunID: p.h.id, StartedAt: stamp(p.h.began()), Begun: []event.RunStarted{}, Spec: json.RawMessage("null")}
	for _, f := range p.h.facts {
		switch e := f.event.(type) {
		case event.SessionOpened:
			m.Build, m.By = e.Build, f.By
		case event.RunStarted:
			m.Begun = append(m.Begun, e)
		}
	}
	if b, _, ok := last[event.RunStarted](p.h); ok {
		m.Spec = p.c.raw(b.Spec)
	}
	return m
}
