package engine

import (
	"encoding/json"
	"slices"

	"metier"
	"metier/config"
	"metier/filetool"
	"metier/model"
	"metier/model/provider"
	"metier/policy"
	"metier/sandbox"
	"metier/settings"
)

// Request describes a run to start. A zero field means the configured default. Paths are absolute
// or relative to the folder of the environment. Roots and harnesses are relative to the workspace.
type Request struct {
	Surface   string           // the user's interface, such as "cli"
	Workspace string           // "": the folder of the environment
	Cwd       string           // folder in the workspace that relative paths start at
	Mounts    []filetool.Mount // more folders
	Artifacts string           // folder of records

	Roots     []string // folders of skills
	Harnesses []string // folders with a HARNESS.md
	Skills    []string // to load before the task, in order
	Deny      []string // skills, by name or ID

	Offline bool // installing uses no network, only downloads that are kept

	Profile string
	Layers  []settings.Layer // settings, weakest first

	Model  string // PROVIDER:NAME
	Script string // file of recorded turns that replaces a model if none can be reached

	Prompt     string
	PromptRole policy.Role
	Mode       string          // chat, code, or plan
	Output     json.RawMessage // JSON schema of the answer
	MaxTurns   int
	MaxTokens  int64
	Batch      bool // no person answers
	Park       bool // leave questions open instead of answering no
	Confined   bool // refuse reads outside of the workspace: who answers questions may not see all that this process can read
	Phase      string
	Later      []string // names of the phases after this one, which the program starts

	Tools        []string // exactly these; nil: the default ones
	Scripts      []string // SKILL:scripts/PATH, allowed and approved as they are
	Hosts        []string // that programs and web_fetch may reach
	Sandbox      string   // backend
	Policies     []string // policy files
	Servers      []string // files of MCP servers
	Subagents    []string // profiles that the model may start
	SubagentDirs []string // folders of more profiles
	Browser      BrowserRequest

	Sources []string // files that the request was made from: tools cannot write to them
	Closed  []string // files that no tool reads

	Custom Custom // what the program supplies

	// NoModel accepts a request without a model. Such a plan can be previewed but not started.
	NoModel bool
}

// Custom holds what an embedding program supplies. None of it is recorded: it must be supplied
// again to resume a run.
type Custom struct {
	Tools  []metier.Tool  // granted to the model
	Model  model.Model    // asked instead of one that is chosen by name
	Mounts []metier.Mount // more sources of skills; tools cannot write to the folder Root of one
	// Sandbox runs programs instead of a backend that is chosen by name. Calls are decided by the
	// level that its Probe reports. The program closes it.
	Sandbox sandbox.Sandbox
}

// BrowserRequest requests a browser session that subagents share.
type BrowserRequest struct {
	Endpoint string // DevTools address on this machine
	Origin   string // the one origin that pages may be of
	Until    string // a duration or a time
}

// Plan is a fully resolved request.
type Plan struct {
	launch   Launch
	op       config.Operator
	settings settings.Settings
	origins  json.RawMessage
	setBy    settings.Origins
	model    provider.Model
	surface  string
	custom   Custom
	skills   *Skills // nil: they are listed when a run starts
	one      bool    // the request runs one script, which it names
}

// Phase returns the name of the phase, or "".
func (p *Plan) Phase() string { return p.launch.Phase }

// Workspace returns the folder the run would work in.
func (p *Plan) Workspace() string { return p.launch.Workspace }

// Model returns the model that the run would use.
func (p *Plan) Model() model.Model { return p.model.Model }

// WithModel returns a copy of the plan that uses another model.
func (p *Plan) WithModel(m model.Model) *Plan {
	q := *p
	q.model.Model = m
	return &q
}

// Records returns the folder that the record of the run is created in.
func (p *Plan) Records() string { return p.launch.Artifacts }

// GrantHarness grants the tool that reads a harness, if there is one.
func (p *Plan) GrantHarness() {
	if p.launch.harnessed() {
		p.launch.Tools = append(p.launch.Tools, settings.ToolLoadContent)
	}
}

// GrantScripts grants the tool that runs scripts if the profile runs scripts, and if the operator
// named scripts or granted names the tool.
func (p *Plan) GrantScripts(granted []string) {
	if (len(p.launch.Scripts) > 0 || slices.Contains(granted, settings.ToolRunSkillScript)) && !p.settings.NoScripts() {
		p.launch.Tools = append(p.launch.Tools, settings.ToolRunSkillScript)
	}
}
