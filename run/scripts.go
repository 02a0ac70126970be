package run

import (
	"cmp"
	"encoding/json"

	"metier/event"
	"metier/record"
	"metier/settings"
)

// Scripts is skill-script-executions.json.
type Scripts struct {
	Type       string   `json:"type"`
	Version    int      `json:"version"`
	RunID      string   `json:"runId"`
	Executions []Script `json:"executions"`
}

// Script is one call that ran a skill's script or was denied. Unknown values are null.
type Script struct {
	OutputID              string          `json:"outputId"`
	RunID                 string          `json:"runId"`
	SkillName             string          `json:"skillName"`
	SkillID               string          `json:"skillId"`
	Tier                  *string         `json:"tier"`
	Path                  string          `json:"path"`
	Entry                 string          `json:"entry"`  // skill:scripts/path
	Status                string          `json:"status"` // executed, error
	ExecutedAt            string          `json:"executedAt"`
	CFCPromptRole         string          `json:"cfcPromptRole"`
	Args                  json.RawMessage `json:"args"`        // a list, or the gap it left
	SkillDigest           *string         `json:"skillDigest"` // of SKILL.md
	Tree                  *string         `json:"tree"`
	ScriptPath            *string         `json:"scriptPath"` // on the host
	RegistryDigest        *string         `json:"registryDigest"`
	ObservedDigest        *string         `json:"observedDigest"`
	DigestMatchesRegistry *bool           `json:"digestMatchesRegistry"`
	RegistrySizeBytes     *int64          `json:"registrySizeBytes"`
	ObservedSizeBytes     *int64          `json:"observedSizeBytes"`
	Program
	Packages    []event.PackagesRequested `json:"packages"` // declared and not there
	Diagnostics json.RawMessage           `json:"diagnostics"`
	Error       *Failure                  `json:"error"`
}

// Program is the record of one program: its input, its limits, and how it ended. If it was
// executed, exactly one of ExitCode, Signal and Limit is not null.
type Program struct {
	ExecutionTarget *string         `json:"executionTarget"`
	Backend         *string         `json:"backend"`
	Level           *string         `json:"level"`
	Runtime         *string         `json:"runtime"`
	Argv            json.RawMessage `json:"argv"` // a list, or the gap it left
	Cwd             *string         `json:"cwd"`
	Network         *string         `json:"network"` // none, hosts: …, any public host
	Hosts           []event.HostUse `json:"hosts"`
	RefusedRequests int             `json:"refusedRequests"` // beyond Hosts
	Limits          *event.Bounds   `json:"limits"`
	ExitCode        *int            `json:"exitCode"`
	Signal          *string         `json:"signal"`
	Limit           *string         `json:"limit"`
	Truncated       bool            `json:"truncated"` // one of the streams
	Stdout          *Stream         `json:"stdout"`
	Stderr          *Stream         `json:"stderr"`
	WallMS          *int64          `json:"wallMs"`
	CPUMS           *int64          `json:"cpuMs"`
	MaxRSSBytes     *int64          `json:"maxRssBytes"`
	Notes           []string        `json:"notes"` // codes
}

// Stream is the output of a program. Text appears only in tool-outputs: the complete output, with
// invalid UTF-8 replaced by U+FFFD, or a gap.
type Stream struct {
	Digest    string          `json:"digest"`
	SizeBytes int64           `json:"sizeBytes"`
	Truncated bool            `json:"truncated"`
	Text      json.RawMessage `json:"text,omitempty"`
}

// Command is one call of the shell tool, whether its program ran or failed to start, as it appears
// in tool-outputs.
type Command struct {
	OutputID   string `json:"outputId"`
	RunID      string `json:"runId"`
	Status     string `json:"status"` // executed, error
	ExecutedAt string `json:"executedAt"`
	Program
	Error *Failure `json:"error"`
}

// scripts lists every script execution: the recorded ones, and the calls of the script tool that
// were denied before execution.
func (p *projector) scripts() []Script {
	if p.scriptList != nil {
		return p.scriptList
	}
	out := []Script{}
	listed := map[string]bool{} // by call
	packages := map[string][]event.PackagesRequested{}
	for _, f := range p.h.facts {
		var s Script
		switch e := f.event.(type) {
		case event.PackagesRequested:
			packages[e.Call] = append(packages[e.Call], e)
			continue
		case event.ScriptExecuted:
			s = p.script(e, f)
		case event.ToolResult:
			if listed[e.ID] || e.Tool != settings.ToolRunSkillScript {
				continue
			}
			s = p.refusedScript(e, f)
		default:
			continue
		}
		s.Packages = some(packages[s.OutputID])
		listed[s.OutputID] = true
		out = append(out, s)
	}
	p.scriptList = out
	return out
}

func (p *projector) script(e event.ScriptExecuted, f fact) Script {
	s := Script{OutputID: e.Call, RunID: p.h.id, SkillName: e.Name, SkillID: e.SkillID, Tier: optional(string(e.Source.Or())), Path: e.Path, Entry: e.Entry, Status: e.Status,
		ExecutedAt: stamp(f.At), CFCPromptRole: promptRole, SkillDigest: optional(e.Hash), Tree: optional(e.Tree), ScriptPath: optional(e.HostPath), RegistryDigest: optional(e.RegistryDigest),
		ObservedDigest: optional(e.ObservedDigest), Program: p.program(e.Execution, f.Seq), Args: p.scriptArgs(e.Call, nil), Diagnostics: json.RawMessage("[]")}
	if e.RegistryDigest != "" {
		s.RegistrySizeBytes = &e.RegistrySize
	}
	if e.ObservedDigest != "" {
		matches := e.ObservedDigest == e.RegistryDigest
		s.DigestMatchesRegistry, s.ObservedSizeBytes = &matches, &e.ObservedSize
	}
	if e.Status != "executed" {
		s.Status, s.Error = "error", failed(e.Code)
	}
	return s
}

// refusedScript describes a call that was denied before its script ran.
func (p *projector) refusedScript(e event.ToolResult, f fact) Script {
	s := Script{OutputID: e.ID, RunID: p.h.id, Status: "error", ExecutedAt: stamp(f.At), CFCPromptRole: promptRole, Program: noProgram(), Diagnostics: json.RawMessage("[]"), Error: failed(e.Code)}
	var args struct{ Skill, Path, Cwd string }
	s.Args = p.scriptArgs(e.ID, &args)
	s.SkillName, s.Path, s.Cwd = args.Skill, args.Path, optional(args.Cwd)
	if args.Skill != "" && args.Path != "" {
		s.Entry = args.Skill + ":" + args.Path
	}
	if id := p.called(cmp.Or(p.decided[e.ID].Skill, args.Skill)); id != "" {
		sk := p.skills[id]
		s.SkillID, s.SkillDigest, s.Tree, s.Tier = id, optional(sk.Digest), optional(sk.Tree), optional(sk.Tier)
		for _, file := range sk.Resources {
			if file.Path == s.Path {
				s.ScriptPath, s.RegistryDigest, s.RegistrySizeBytes = optional(file.ResourcePath), optional(file.Digest), &file.SizeBytes
			}
		}
	}
	return s
}

// scriptArgs returns the arguments of a call's script as a list, or a gap, and decodes the other
// arguments of the call into the value into. Arguments come from the model: those of another shape
// are omitted here and appear unchanged in tool-outputs.
func (p *projector) scriptArgs(call string, into any) json.RawMessage {
	b, gap := p.c.load(p.argsOf(call))
	if gap != nil {
		p.gap(0, gap)
		return p.c.json(gap)
	}
	if into != nil && b != nil {
		_ = json.Unmarshal(b, into)
	}
	var args struct{ Args []string }
	if b == nil || json.Unmarshal(b, &args) != nil {
		args.Args = nil
	}
	return p.c.json(some(args.Args))
}

// argsOf finds the arguments of a call that was claimed, denied, or only requested.
func (p *projector) argsOf(call string) record.Ref {
	if ref := p.started[call].Args; ref.Digest != "" {
		return ref
	}
	if ref := p.decided[call].Args; ref.Digest != "" {
		return ref
	}
	return p.asked[call].Args
}

func noProgram() Program {
	return Program{Argv: json.RawMessage("[]"), Hosts: []event.HostUse{}, Notes: []string{}}
}

// program describes one execution. Measurements are null if nothing ran.
func (p *projector) program(e event.Execution, seq uint64) Program {
	out := noProgram()
	out.ExecutionTarget, out.Backend, out.Level, out.Runtime, out.Cwd = optional(e.Target), optional(e.Backend), optional(e.Level), optional(e.Runtime), optional(e.Cwd)
	out.Hosts, out.RefusedRequests, out.Notes = some(e.Hosts), e.Refused, some(e.Notes)
	for i := range out.Hosts {
		out.Hosts[i].Addresses = some(out.Hosts[i].Addresses)
	}
	if e.Status != "executed" {
		return out
	}
	network, bounds := cmp.Or(e.Network, "none"), e.Bounds
	out.Network, out.Limits, out.ExitCode, out.Signal, out.Limit = &network, &bounds, e.Exit, optional(e.Signal), optional(e.Limit)
	out.Truncated = e.StdoutTruncated || e.StderrTruncated
	out.WallMS, out.CPUMS, out.MaxRSSBytes = &e.WallMS, &e.CPUMS, optional(e.MaxRSS)
	out.Stdout = &Stream{Digest: e.Stdout.Digest, SizeBytes: e.Stdout.Size, Truncated: e.StdoutTruncated}
	out.Stderr = &Stream{Digest: e.Stderr.Digest, SizeBytes: e.Stderr.Size, Truncated: e.StderrTruncated}
	b, gap := p.c.load(e.Argv)
	switch {
	case gap != nil:
		p.gap(seq, gap)
		out.Argv = p.c.json(gap)
	case b != nil:
		var argv []string
		if err := json.Unmarshal(b, &argv); err != nil {
			p.note(Problem{"content_unexpected", seq, e.Argv.Digest, err.Error()})
		}
		out.Argv = p.c.json(some(argv))
	}
	return out
}

// withText adds the complete output to a program.
func (p *projector) withText(in Program, e event.Execution) Program {
	with := func(s *Stream, ref record.Ref) *Stream {
		if s == nil {
			return nil
		}
		out := *s
		out.Text = p.c.text(ref)
		return &out
	}
	in.Stdout, in.Stderr = with(in.Stdout, e.Stdout), with(in.Stderr, e.Stderr)
	return in
}

// commands lists every command, by call.
func (p *projector) commands() map[string]Command {
	if p.commandList != nil {
		return p.commandList
	}
	out := map[string]Command{}
	for _, f := range p.h.facts {
		e, ok := f.event.(event.ToolResult)
		x, ran := p.executed[e.ID]
		if !ok || !ran || x.script {
			continue
		}
		c := Command{OutputID: e.ID, RunID: p.h.id, Status: x.Status, ExecutedAt: stamp(x.fact.At), Program: p.program(x.Execution, x.fact.Seq)}
		if x.Status != "executed" {
			c.Error = failed(x.Code)
		}
		out[e.ID] = c
	}
	p.commandList = out
	return out
}

func failed(code string) *Failure {
	code = cmp.Or(code, "unknown")
	return &Failure{code, failureText(code)}
}
