package run

import (
	"encoding/json"
	"fmt"

	"metier/event"
	"metier/internal/digest"
	"metier/policy"
)

// PromptSlot binds one input to its origin and to the configuration in effect when it arrived: the
// evidence for decisions. Only user-facing input creates slots. Skills, harnesses, resources, tool
// results and children never do.
type PromptSlot struct {
	Type       string      `json:"type"` // metier.prompt-slot
	Source     string      `json:"source"`
	Role       policy.Role `json:"role"`
	KernelName string      `json:"kernelName"` // what gave the role: metier
	Surface    string      `json:"surface"`
	Subject    string      `json:"subject"` // the input's ID: prompt, exec …
	RenderRef  RenderRef   `json:"renderRef"`
	EventID    string      `json:"eventId"`
	// ValueDigest covers the text of the input. SnapshotDigest covers the settings, grants and
	// registry at that moment. SlotDigest covers the binding as JSON, with slotDigest and
	// targetPath set to "".
	ValueDigest    string `json:"valueDigest"`
	SlotDigest     string `json:"slotDigest"`
	SnapshotDigest string `json:"snapshotDigest"`
	TargetPath     string `json:"targetPath"` // JSON pointer to the text in transcript.json
}

// RenderRef is where in the record a slot was filled: the entry, and the hash of everything before
// it.
type RenderRef struct {
	Seq     uint64 `json:"seq"`
	RootRef string `json:"rootRef"`
}

// SlotUse is a slot as seen by a decision. SlotDigest identifies its PromptSlot.
type SlotUse struct {
	policy.Slot
	SlotDigest string `json:"slotDigest"`
}

const kernelName = "metier"

// promptSlots returns all inputs of the record, in order.
func (p *projector) promptSlots() []PromptSlot {
	out := []PromptSlot{}
	var inForce struct{ Settings, Grants, Registry string }
	for _, f := range p.h.facts {
		switch e := f.event.(type) {
		case event.SessionOpened:
			inForce.Settings, inForce.Grants = e.Settings.Digest, e.Grants.Digest
		case event.SkillsDiscovered:
			inForce.Registry = e.Registry.Digest
		case event.Input:
			s := PromptSlot{Type: typePrefix + "prompt-slot", Source: e.Slot.Origin, Role: e.Slot.Role, KernelName: kernelName, Surface: e.Slot.Surface, Subject: e.ID,
				RenderRef: RenderRef{f.Seq, f.Prev}, EventID: f.ID, ValueDigest: e.Content.Digest}
			s.SnapshotDigest = digestOf(inForce)
			s.SlotDigest = digestOf(s)
			out = append(out, s)
		}
	}
	return out
}

func digestOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and a number always marshal
	}
	return digest.Bytes(b)
}

// uses returns the slots of a decision at seq. A decision uses the newest input of its turn.
func uses(slots []PromptSlot, seq uint64, seen []policy.Slot) []SlotUse {
	out := []SlotUse{}
	for _, s := range seen {
		u := SlotUse{Slot: s}
		for _, b := range slots {
			if b.RenderRef.Seq < seq && (b.ValueDigest == s.Digest || s.Digest == "") && b.Role == s.Role && b.Surface == s.Surface && b.Source == s.Origin {
				u.SlotDigest = b.SlotDigest
			}
		}
		out = append(out, u)
	}
	return out
}

// pointed sets where in the transcript each slot's text appears.
func pointed(slots []PromptSlot, t Transcript) []PromptSlot {
	at := map[uint64]int{}
	for i, m := range t.Messages {
		at[m.Seq] = i
	}
	for i := range slots {
		if n, ok := at[slots[i].RenderRef.Seq]; ok {
			slots[i].TargetPath = fmt.Sprintf("/messages/%d/content", n)
		}
	}
	return slots
}
