package metier

import (
	"context"
	"encoding/json"
	"slices"

	"metier/event"
	"metier/policy"
)

// Scope is what a tool may touch while it is invoked: the session's skills,
// under a decision that was already taken. What it records goes into the log
// in one piece with the call's result, or not at all.
type Scope struct {
	s      *Session
	call   Call
	intent json.RawMessage
	active []event.SkillRef
	events []event.Event
	loads  []string // IDs of skills that were put in because they were not active
	last   bool     // the result counts even when one of loads became active meanwhile
}

// withdraw takes back activations whose text nobody will be shown.
func (x *Scope) withdraw() {
	x.loads = nil
	x.events = slices.DeleteFunc(x.events, func(e event.Event) bool { _, is := e.(event.Activated); return is })
}

// stale reports whether a skill this call puts in became active, with the same
// text, since the call looked: then a second body would enter.
func (x *Scope) stale(st *State) bool {
	return slices.ContainsFunc(x.events, func(e event.Event) bool {
		act, is := e.(event.Activated)
		if !is || !slices.Contains(x.loads, act.SkillID) {
			return false
		}
		old, was := st.active(act.SkillID)
		return was && old.Hash == act.Hash
	})
}

// Session returns the session, for its snapshot, view and settings.
func (x *Scope) Session() *Session { return x.s }

// Call returns the call, its arguments included.
func (x *Scope) Call() Call { return x.call }

// Intent returns what Facts said a write would do, as it was claimed the first
// time: after a crash the tool compares it with what is there.
func (x *Scope) Intent() json.RawMessage { return x.intent }

// Active returns the active skills: the skill context of the call (C-046,
// E-053).
func (x *Scope) Active() []event.SkillRef { return x.active }

// Activate puts a skill's instructions into the session. See Session.Activate.
func (x *Scope) Activate(ctx context.Context, sk Skill, arguments []string) (Activation, string, error) {
	return x.s.activate(ctx, x, sk, arguments)
}

// Read reads a file of a skill under the settings of reads, and records it,
// failures included. max is in bytes; 0 takes the default.
func (x *Scope) Read(ctx context.Context, skill, path string, max int) (Reading, error) {
	return x.s.readResource(ctx, x, skill, path, max)
}

// Record adds an event to what the call leaves in the log. Tools use it for
// notes; skill events are written by Activate and Read.
func (x *Scope) Record(e event.Event) { x.events = append(x.events, e) }

// Suspect records what in a skill's text reads like an injection; the error keeps it from the model.
func (x *Scope) Suspect(sk Skill, file, text string) error { return x.s.suspected(x, sk, file, text) }

// source is how the call's activations are recorded (ruling 10).
func (x *Scope) source() string {
	if x.call.Source != "" {
		return x.call.Source
	}
	switch x.call.Actor {
	case policy.ByOperator:
		return "cli-preload"
	case policy.ByUser:
		return "user-explicit"
	}
	return "model-tool"
}
