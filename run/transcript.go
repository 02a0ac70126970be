package run

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// Transcript is transcript.json: what was said, in order.
type Transcript struct {
	Type     string      `json:"type"`
	Version  int         `json:"version"`
	RunID    string      `json:"runId"`
	Head     record.Head `json:"head"`
	Turns    []Turn      `json:"turns"`
	Messages []Message   `json:"messages"`
}

// Turn is one reply of the model and the skills that were active for it.
type Turn struct {
	Turn         int             `json:"turn"`
	Op           string          `json:"op"`
	At           string          `json:"at"`
	Model        string          `json:"model"`
	Stop         string          `json:"stop"`
	Usage        event.Usage     `json:"usage"`
	ActiveSkills []ActiveVersion `json:"activeSkills"`
}

// ActiveVersion names the text of a skill that was in force.
type ActiveVersion struct {
	SkillID string `json:"skillId"`
	Name    string `json:"name"`
	Digest  string `json:"digest"`
}

// Message is one piece of the transcript. Role is system, user, context (a
// skill's instructions), assistant, tool or summary. Content is the parts as
// the record holds them, or a Gap; it is null for a skill whose instructions
// went to the model in the result of the call ShownBy, and in the file where
// ContentIn names another file that has it.
type Message struct {
	Seq           uint64          `json:"seq"`
	At            string          `json:"at"`
	Turn          int             `json:"turn"`
	Role          string          `json:"role"`
	By            string          `json:"by,omitempty"`
	CFCPromptRole string          `json:"cfcPromptRole"` // "" for the model's own words and the system prompt
	Slot          *policy.Slot    `json:"slot"`
	Call          string          `json:"call,omitempty"`
	Tool          string          `json:"tool,omitempty"`
	Code          string          `json:"code,omitempty"`
	Skill         *ActiveVersion  `json:"skill,omitempty"`
	ShownBy       string          `json:"shownBy,omitempty"`
	Digest        string          `json:"digest"`
	Content       json.RawMessage `json:"content"`
	ContentIn     string          `json:"contentIn,omitempty"` // slash path in the folder
}

// maxRepeated is the size in bytes of the longest result of a call that the
// file repeats. Longer ones are in their file of tool-outputs only, except a
// skill's instructions.
const maxRepeated = 4 << 10

// withoutOutputs is the transcript as its file has it.
func (p *projector) withoutOutputs(t Transcript) Transcript {
	names, shows := p.outputNames(), map[string]bool{}
	for _, m := range t.Messages {
		shows[m.ShownBy] = true
	}
	t.Messages = slices.Clone(t.Messages)
	for i, m := range t.Messages {
		if m.Role == "tool" && len(m.Content) > maxRepeated && !shows[m.Call] {
			t.Messages[i].Content, t.Messages[i].ContentIn = json.RawMessage("null"), outputsDir+"/"+names[m.Call]
		}
	}
	return t
}

// loopCall is the form of the ids of the agent's own calls: t3.c1.
var loopCall = regexp.MustCompile(`^t[0-9]+\.`)

func (p *projector) transcript(ctx context.Context) (Transcript, error) {
	out := Transcript{Type: typePrefix + "transcript", Version: 1, RunID: p.h.id, Head: p.h.head, Turns: []Turn{}, Messages: []Message{}}
	var active []ActiveVersion
	system := ""
	add := func(f fact, m Message, err error) error {
		if err != nil {
			return err
		}
		m.Seq, m.At = f.Seq, stamp(f.At)
		if m.Turn == 0 {
			m.Turn = len(out.Turns) + 1
		}
		if loopCall.MatchString(m.Call) && len(out.Turns) > 0 {
			m.Turn = len(out.Turns)
		}
		out.Messages = append(out.Messages, m)
		return nil
	}
	for _, f := range p.h.facts {
		var m Message
		var err error
		switch e := f.event.(type) {
		case event.ToolsOffered:
			if e.System.Digest == "" || e.System.Digest == system {
				continue
			}
			system = e.System.Digest
			m = Message{Role: "system", Digest: e.System.Digest}
			m.Content, err = p.textParts(ctx, e.System)
		case event.Input:
			m = Message{Role: "user", By: f.By, CFCPromptRole: string(e.Slot.Role), Slot: &e.Slot, Digest: e.Content.Digest}
			m.Content, err = p.messageParts(ctx, e.Content)
		case event.SkillActivated:
			active = activate(active, ActiveVersion{e.SkillID, e.Name, e.Hash})
			m, err = p.skillMessage(ctx, e)
		case event.ModelReplied:
			out.Turns = append(out.Turns, Turn{len(out.Turns) + 1, e.ID, stamp(f.At), e.Model, e.Stop, e.Usage, some(append([]ActiveVersion(nil), active...))})
			m = Message{Role: "assistant", Turn: len(out.Turns), Digest: e.Message.Digest}
			m.Content, err = p.messageParts(ctx, e.Message)
		case event.ToolResult:
			role := string(e.Label.Role)
			if role == "" {
				role = promptRole
			}
			m = Message{Role: "tool", CFCPromptRole: role, Call: e.ID, Tool: e.Tool, Code: e.Code, Digest: e.Content.Digest}
			m.Content, err = p.c.raw(ctx, e.Content)
		case event.ContextCompacted:
			m = Message{Role: "summary", CFCPromptRole: promptRole, Digest: e.Summary.Digest}
			m.Content, err = p.messageParts(ctx, e.Summary)
		default:
			continue
		}
		if err := add(f, m, err); err != nil {
			return out, err
		}
	}
	return out, nil
}

// activate puts a version in the place of the skill's older one.
func activate(active []ActiveVersion, v ActiveVersion) []ActiveVersion {
	for i := range active {
		if active[i].SkillID == v.SkillID {
			active[i] = v
			return active
		}
	}
	return append(active, v)
}

// skillMessage shows a skill's instructions once: where the call's
// result carries them, there.
func (p *projector) skillMessage(ctx context.Context, e event.SkillActivated) (Message, error) {
	m := Message{Role: "context", CFCPromptRole: promptRole, Call: e.Call, Skill: &ActiveVersion{e.SkillID, e.Name, e.Hash}, Digest: e.Text.Digest,
		Content: json.RawMessage("null")}
	text, gap, err := p.c.load(ctx, e.Text)
	if err != nil {
		return m, err
	}
	if gap == nil {
		shown, err := p.showsText(ctx, e.Call, text)
		if err != nil {
			return m, err
		}
		if shown {
			m.ShownBy = e.Call
			return m, nil
		}
	}
	m.Content, err = p.textParts(ctx, e.Text)
	return m, err
}

func (p *projector) showsText(ctx context.Context, call string, text []byte) (bool, error) {
	ret, ok := p.returned[call]
	if !ok || len(text) == 0 {
		return false, nil
	}
	b, gap, err := p.c.load(ctx, ret.Content)
	if err != nil || gap != nil {
		return false, err
	}
	var parts []model.Part
	if json.Unmarshal(b, &parts) != nil {
		return bytes.Contains(b, text), nil
	}
	inJSON, err := compact(string(text))
	if err != nil {
		return false, err
	}
	escaped, err := json.Marshal(string(text))
	if err != nil {
		return false, err
	}
	for _, part := range parts {
		t := []byte(part.Text)
		if bytes.Contains(t, text) || bytes.Contains(t, inJSON[1:len(inJSON)-1]) || bytes.Contains(t, escaped[1:len(escaped)-1]) {
			return true, nil
		}
	}
	return false, nil
}

// messageParts returns the parts of a message blob, or the gap.
func (p *projector) messageParts(ctx context.Context, r record.Ref) (json.RawMessage, error) {
	b, gap, err := p.c.load(ctx, r)
	if err != nil {
		return nil, err
	}
	if gap != nil {
		return compact(gap)
	}
	var m struct {
		Parts json.RawMessage `json:"parts"`
	}
	if b == nil || json.Unmarshal(b, &m) != nil || m.Parts == nil {
		return p.c.raw(ctx, r)
	}
	return embedded(m.Parts)
}

// textParts returns text as one part, or the gap.
func (p *projector) textParts(ctx context.Context, r record.Ref) (json.RawMessage, error) {
	b, gap, err := p.c.load(ctx, r)
	if err != nil {
		return nil, err
	}
	if gap != nil {
		return compact(gap)
	}
	return compact([]model.Part{model.Text(string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))})
}
