package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// Transcript is transcript.json: the conversation, in order.
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

// ActiveVersion identifies the active text of a skill.
type ActiveVersion struct {
	SkillID string `json:"skillId"`
	Name    string `json:"name"`
	Digest  string `json:"digest"`
}

// Message is one item of the transcript. Role is system, user, context (a skill's instructions),
// assistant, tool or summary. Content is the recorded parts, or a Gap. It is null for a skill whose
// instructions went to the model in the result of the call ShownBy. In the file it is also null if
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

// maxRepeated is the size in bytes of the longest call result that the file includes. Longer
// results are only in their tool-outputs files, except for a skill's instructions.
const maxRepeated = 4 << 10

// withoutOutputs returns the transcript as it is written to its file. Results that the file does not
// include are not kept in memory either.
func (p *projector) withoutOutputs() Transcript {
	t := p.transcribed(maxRepeated)
	names, shows := p.outputNames(), map[string]bool{}
	for _, m := range t.Messages {
		shows[m.ShownBy] = true
	}
	for i := range t.Messages {
		switch m := &t.Messages[i]; {
		case m.Content != nil:
		case shows[m.Call]:
			m.Content = p.c.raw(p.returned[m.Call].Content)
		default:
			m.Content, m.ContentIn = json.RawMessage("null"), outputsDir+"/"+names[m.Call]
		}
	}
	return t
}

// loopCall matches the ids of the agent's own calls, such as t3.c1.
var loopCall = regexp.MustCompile(`^t[0-9]+\.`)

func (p *projector) transcript() Transcript { return p.transcribed(math.MaxInt) }

// transcribed returns the transcript. The content of a call's result is nil if it has more than most
// bytes.
func (p *projector) transcribed(most int) Transcript {
	out := Transcript{Type: typePrefix + "transcript", Version: 1, RunID: p.h.id, Head: p.h.head, Turns: []Turn{}, Messages: []Message{}}
	var active []ActiveVersion
	system := ""
	add := func(f fact, m Message) {
		m.Seq, m.At = f.Seq, stamp(f.At)
		if m.Turn == 0 {
			m.Turn = len(out.Turns) + 1
		}
		if loopCall.MatchString(m.Call) && len(out.Turns) > 0 {
			m.Turn = len(out.Turns)
		}
		out.Messages = append(out.Messages, m)
	}
	for _, f := range p.h.facts {
		var m Message
		switch e := f.event.(type) {
		case event.ToolsOffered:
			if e.System.Digest == "" || e.System.Digest == system {
				continue
			}
			system = e.System.Digest
			m = Message{Role: "system", Digest: e.System.Digest, Content: p.textParts(e.System)}
		case event.Input:
			m = Message{Role: "user", By: f.By, CFCPromptRole: string(e.Slot.Role), Slot: &e.Slot, Digest: e.Content.Digest, Content: p.messageParts(e.Content)}
		case event.SkillActivated:
			active = activate(active, ActiveVersion{e.SkillID, e.Name, e.Hash})
			m = p.skillMessage(e)
		case event.ModelReplied:
			out.Turns = append(out.Turns, Turn{len(out.Turns) + 1, e.ID, stamp(f.At), e.Model, e.Stop, e.Usage, some(slices.Clone(active))})
			m = Message{Role: "assistant", Turn: len(out.Turns), Digest: e.Message.Digest, Content: p.messageParts(e.Message)}
		case event.ToolResult:
			m = Message{Role: "tool", CFCPromptRole: cmp.Or(string(e.Label.Role), promptRole), Call: e.ID, Tool: e.Tool, Code: e.Code, Digest: e.Content.Digest,
				Content: p.c.raw(e.Content)}
			if len(m.Content) > most {
				m.Content = nil
			}
		case event.ContextCompacted:
			m = Message{Role: "summary", CFCPromptRole: promptRole, Digest: e.Summary.Digest, Content: p.messageParts(e.Summary)}
		default:
			continue
		}
		add(f, m)
	}
	return out
}

// activate replaces the older version of the same skill, or appends v.
func activate(active []ActiveVersion, v ActiveVersion) []ActiveVersion {
	return upsert(active, v, func(x ActiveVersion) bool { return x.SkillID == v.SkillID })
}

// skillMessage shows a skill's instructions once. If a call's result carries them, they appear
// there.
func (p *projector) skillMessage(e event.SkillActivated) Message {
	m := Message{Role: "context", CFCPromptRole: promptRole, Call: e.Call, Skill: &ActiveVersion{e.SkillID, e.Name, e.Hash}, Digest: e.Text.Digest,
		Content: json.RawMessage("null")}
	if text, _ := p.c.load(e.Text); p.showsText(e.Call, text) {
		m.ShownBy = e.Call
	} else {
		m.Content = p.textParts(e.Text)
	}
	return m
}

// showsText reports whether the result of a call contains the text, either directly or inside JSON.
func (p *projector) showsText(call string, text []byte) bool {
	b, _ := p.c.load(p.returned[call].Content)
	if len(text) == 0 || b == nil {
		return false
	}
	var parts []model.Part
	if json.Unmarshal(b, &parts) != nil {
		return bytes.Contains(b, text)
	}
	escaped, _ := json.Marshal(string(text)) // a text always marshals
	inJSON := p.c.json(string(text))
	for _, in := range [][]byte{text, inJSON[1 : len(inJSON)-1], escaped[1 : len(escaped)-1]} {
		if slices.ContainsFunc(parts, func(part model.Part) bool { return strings.Contains(part.Text, string(in)) }) {
			return true
		}
	}
	return false
}

// messageParts returns the parts of a message blob, or a gap.
func (p *projector) messageParts(r record.Ref) json.RawMessage {
	var m struct {
		Parts json.RawMessage `json:"parts"`
	}
	if b, _ := p.c.load(r); json.Unmarshal(b, &m) != nil || m.Parts == nil {
		return p.c.raw(r)
	}
	return p.c.embedded(m.Parts)
}

// textParts returns text as one part, or a gap.
func (p *projector) textParts(r record.Ref) json.RawMessage {
	b, gap := p.c.load(r)
	if gap != nil {
		return p.c.json(gap)
	}
	return p.c.json([]model.Part{model.Text(validText(b))})
}
