package run

import (
	"cmp"
	"encoding/json"
	"fmt"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// PolicySnapshot is policy-snapshot.json: what was allowed, by whom, and which skills had
// influence.
type PolicySnapshot struct {
	Type              string            `json:"type"`
	Version           int               `json:"version"`
	RunID             string            `json:"runId"`
	GeneratedAt       string            `json:"generatedAt"`
	Head              record.Head       `json:"head"`
	Build             string            `json:"build"`
	Settings          json.RawMessage   `json:"settings"` // every value and who set it
	Grants            json.RawMessage   `json:"grants"`
	EnforcementMode   string            `json:"enforcementMode"`
	AllowedTools      []string          `json:"allowedTools"`
	AllowedScripts    []string          `json:"allowedScripts"`  // exact skill:scripts/path
	AllowedProfiles   []string          `json:"allowedProfiles"` // of subagents
	PromptSlotRole    string            `json:"promptSlotRole"`  // of the newest input; "" before the first
	DeniedSkills      []string          `json:"deniedSkills"`
	SkillsRoot        string            `json:"skillsRoot"`
	CatalogMode       CatalogMode       `json:"catalogMode"`
	LoadedSkills      []LoadedSkill     `json:"loadedSkills"`
	ActivationSources []string          `json:"activationSources"` // in order of first use
	InjectedAsContext bool              `json:"injectedAsContext"`
	Diagnostics       []json.RawMessage `json:"diagnostics"` // of trust: errors and warnings, and drift
	Omitted           int               `json:"diagnosticsOmitted"`
}

// CatalogMode reports whether and how the skills are listed to the model. Both are values of
// settings.
type CatalogMode struct {
	Disclosed bool   `json:"disclosed"`
	Digest    string `json:"digest"`
	Format    string `json:"format"`
	Place     string `json:"place"`
	Omitted   int    `json:"omitted"`
	// The level of detail per skill (full, cut, names), the number of skills listed, and the
	// estimated size and the limit in tokens (limit 0: unlimited).
	Rung   string `json:"rung"`
	Listed int    `json:"listed"`
	Tokens int    `json:"tokens"`
	Budget int    `json:"budget"`
	// The number of listed skills with a shortened description, and with none.
	Cut     int `json:"descriptionsCut"`
	Dropped int `json:"descriptionsDropped"`
}

// LoadedSkill is a skill whose text was given to the model.
type LoadedSkill struct {
	Name              string `json:"name"`
	SkillID           string `json:"skillId"`
	Digest            string `json:"digest"`
	Tree              string `json:"tree"`
	Tier              string `json:"tier"`
	Source            string `json:"source"`
	InjectedAsContext bool   `json:"injectedAsContext"`
}

// maxDiagnostics limits the diagnostics in a snapshot. The registry has all of them.
const maxDiagnostics = 1000

func (p *projector) policySnapshot() (PolicySnapshot, error) {
	out := PolicySnapshot{Type: typePrefix + "policy-snapshot", Version: 1, RunID: p.h.id, GeneratedAt: stamp(p.h.ended()), Head: p.h.head,
		Settings: json.RawMessage("null"), Grants: json.RawMessage("null"), AllowedTools: []string{}, AllowedScripts: []string{},
		DeniedSkills: []string{}, AllowedProfiles: []string{}, SkillsRoot: p.reg.SkillsRoot, LoadedSkills: []LoadedSkill{}, ActivationSources: []string{},
		InjectedAsContext: true, Diagnostics: []json.RawMessage{}}
	opened, _, ok := last[event.SessionOpened](p.h)
	if ok {
		out.Settings, out.Grants, out.Build = p.c.raw(opened.Settings), p.c.raw(opened.Grants), opened.Build
		var g policy.Grants
		if json.Unmarshal(out.Grants, &g) == nil {
			out.EnforcementMode, out.AllowedTools = string(g.Mode), some(g.Tools)
			out.AllowedScripts, out.DeniedSkills = some(g.Scripts), some(g.Denied)
			out.AllowedProfiles = some(g.Profiles)
		}
	}
	if o, _, ok := last[event.ToolsOffered](p.h); ok {
		out.CatalogMode = CatalogMode{Disclosed: o.Catalog.Digest != "", Digest: o.Catalog.Digest, Omitted: o.Omitted}
	}
	if c, _, ok := last[event.CatalogSent](p.h); ok {
		out.CatalogMode.Rung, out.CatalogMode.Listed, out.CatalogMode.Tokens, out.CatalogMode.Budget = c.Rung, c.Listed, c.Tokens, c.Budget
		out.CatalogMode.Cut, out.CatalogMode.Dropped = c.Cut, c.Dropped
	}
	if s, _, ok := last[event.Input](p.h); ok {
		out.PromptSlotRole = string(s.Slot.Role)
	}
	out.CatalogMode.Format, out.CatalogMode.Place = setting(out.Settings, "catalog_format"), setting(out.Settings, "catalog_place")
	p.loadedSkills(&out)
	return out, p.trustDiagnostics(&out)
}

func (p *projector) loadedSkills(out *PolicySnapshot) {
	seen := map[string]bool{}
	for _, f := range p.h.facts {
		e, ok := f.event.(event.SkillActivated)
		if !ok {
			continue
		}
		asContext := e.Role == policy.Context
		out.InjectedAsContext = out.InjectedAsContext && asContext
		out.LoadedSkills = append(out.LoadedSkills, LoadedSkill{e.Name, e.SkillID, e.Hash, e.Tree, string(e.Source.Or()), e.ActivationSource, asContext})
		if !seen[e.ActivationSource] {
			seen[e.ActivationSource] = true
			out.ActivationSources = append(out.ActivationSources, e.ActivationSource)
		}
	}
}

// trustDiagnostics collects what matters for trust: all errors and warnings of the registry, all
// drift, and text that looks like prompt injection.
func (p *projector) trustDiagnostics(out *PolicySnapshot) error {
	add := func(d json.RawMessage) {
		if len(out.Diagnostics) == maxDiagnostics {
			out.Omitted++
			return
		}
		out.Diagnostics = append(out.Diagnostics, d)
	}
	var severe []json.RawMessage
	if p.index != nil {
		severe = p.index.severe
	} else {
		var err error
		if severe, err = p.reg.severe(); err != nil {
			return err
		}
	}
	for _, d := range severe {
		add(d)
	}
	for _, f := range p.h.facts {
		code, on, detail := trustFact(f.event)
		if code == "" {
			continue
		}
		add(p.c.json(map[string]any{"severity": "warning", "code": code, "path": on, "detail": detail}))
	}
	return nil
}

// trustFact describes an event that matters for trust. It returns "" for any other event.
func trustFact(ev event.Event) (code, on, detail string) {
	switch e := ev.(type) {
	case event.SkillDrifted:
		return CodeDrift, e.Path, fmt.Sprintf("%s was %s and is %s; chosen: %s", e.SkillID, e.Was, cmp.Or(e.Now, "gone"), cmp.Or(e.Choice, "nothing yet"))
	case event.SkillSuspected:
		did := "delivered"
		if e.Blocked {
			did = "not delivered"
		}
		return CodeSuspect, e.Path, fmt.Sprintf("%s reads like an injection (%s) at byte %d; %s", e.SkillID, e.Kind, e.Offset, did)
	}
	return "", "", ""
}

// setting reads one setting from what settings.Snapshot wrote.
func setting(raw json.RawMessage, name string) string {
	var snapshot struct {
		Settings []struct{ Name, Value string }
	}
	if json.Unmarshal(raw, &snapshot) != nil {
		return ""
	}
	for _, s := range snapshot.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// PolicyTrace is policy-trace.json: all inputs, decisions and questions.
type PolicyTrace struct {
	Type    string      `json:"type"`
	Version int         `json:"version"`
	RunID   string      `json:"runId"`
	Head    record.Head `json:"head"`
	// PromptSlots are the inputs that decisions may use as evidence.
	PromptSlots []PromptSlot `json:"promptSlots"`
	Decisions   []Decision   `json:"decisions"`
	Questions   []Question   `json:"questions"`
}

// Decision is one policy decision. Decision is allowed, warned, denied, asked, or failed (a script
// that cannot run, although no rule denies it). Stage is call (before the tool acts), program (before
// one that the call started runs), or release (before the model sees the result).
type Decision struct {
	Seq          uint64           `json:"seq"`
	At           string           `json:"at"`
	By           string           `json:"by"`
	Call         string           `json:"call"`
	Tool         string           `json:"tool"`
	Actor        string           `json:"actor"`
	Effect       string           `json:"effect"`
	Skill        string           `json:"skill"`
	Profile      string           `json:"profile"` // of the subagent that would start; "" for none
	Stage        string           `json:"stage"`
	Decision     string           `json:"decision"`
	Code         string           `json:"code"`
	Rule         string           `json:"rule"`
	Risk         []string         `json:"risk"`
	ArgsDigest   string           `json:"argsDigest"`
	ActiveSkills []event.SkillRef `json:"activeSkills"`
	PromptSlots  []SlotUse        `json:"promptSlots"`
}

// Question is one approval request. Answer is null while it is open.
type Question struct {
	ID      string          `json:"id"`
	Call    string          `json:"call"`
	Code    string          `json:"code"`
	Binds   string          `json:"binds"`
	Scopes  []string        `json:"scopes"`
	AskedAt string          `json:"askedAt"`
	Text    json.RawMessage `json:"text"`
	Expired bool            `json:"expired"`
	Answer  *Answer         `json:"answer"`
}

// Answer is the answer to a question.
type Answer struct {
	Allow bool   `json:"allow"`
	Scope string `json:"scope"`
	By    string `json:"by"`
	At    string `json:"at"`
	// Surface is where the answer was given, such as "cli". It is "" if no user was asked, and in
	// older records.
	Surface string `json:"surface,omitempty"`
}

var verdicts = map[policy.Outcome]string{policy.Allow: "allowed", policy.Warn: "warned", policy.Deny: "denied", policy.Ask: "asked"}

func (p *projector) decisions(slots []PromptSlot) []Decision {
	out := []Decision{}
	for _, f := range p.h.facts {
		e, ok := f.event.(event.PolicyDecided)
		if !ok {
			continue
		}
		verdict, ok := verdicts[e.Outcome]
		if !ok || e.Fault {
			verdict = e.Verdict()
		}
		out = append(out, Decision{Seq: f.Seq, At: stamp(f.At), By: f.By, Call: e.Call, Tool: e.Tool, Actor: string(e.Actor), Effect: string(e.Effect),
			Skill: e.Skill, Profile: e.Profile, Stage: e.Stage, Decision: verdict, Code: e.Code, Rule: e.Rule, Risk: some(e.Risk), ArgsDigest: e.Args.Digest,
			ActiveSkills: some(e.Active), PromptSlots: uses(slots, f.Seq, e.Slots)})
	}
	return out
}

func (p *projector) questions() []Question {
	out := []Question{}
	open := func(call, id string) *Question {
		for i := len(out) - 1; i >= 0; i-- {
			if q := &out[i]; q.Call == call && q.ID == id && q.Answer == nil && !q.Expired {
				return q
			}
		}
		return nil
	}
	for _, f := range p.h.facts {
		switch e := f.event.(type) {
		case event.ApprovalRequested:
			out = append(out, Question{ID: e.ID, Call: e.Call, Code: e.Code, Binds: e.Binds, Scopes: some(e.Scopes), AskedAt: stamp(f.At), Text: p.c.text(e.Text)})
		case event.ApprovalAnswered:
			q := open(e.Call, e.ID)
			if q == nil { // a grant answered it before it was asked
				out = append(out, Question{ID: e.ID, Call: e.Call, Code: policy.CodeAnswered, Binds: e.Binds, Scopes: []string{e.Scope}, AskedAt: stamp(f.At), Text: json.RawMessage("null")})
				q = &out[len(out)-1]
			}
			q.Answer = &Answer{e.Allow, e.Scope, e.By, stamp(f.At), e.Surface}
		case event.ApprovalExpired:
			if q := open(e.Call, e.ID); q != nil {
				q.Expired = true
			}
		}
	}
	return out
}
