package metier

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/digest"
	"metier/internal/termtext"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Tool is a function that a model can call. A tool makes no policy decisions: it states what a call
// would do, and [Session.Call] invokes it.
type Tool interface {
	// Spec returns the current description of the tool for the model. offered is false if the
	// session does not need the tool: without skills, for example, it needs no load tool.
	Spec(ctx context.Context, s *Session) (spec Spec, offered bool)
	// Facts parses the arguments and returns what the call would do. It has no side effects. An
	// *Error of Kind Invalid refuses the call and is sent to the model. For writes, Facts.Intent
	// contains the state before and after.
	Facts(ctx context.Context, s *Session, args json.RawMessage) (Facts, error)
	// Invoke performs the call. Only Session.Call calls it. A failure is a Result with a Code. An
	// error means that the outcome is unknown.
	Invoke(ctx context.Context, x *ToolContext) (Result, error)
}

// Stager is a [Tool] that runs programs of skills. Stage copies a skill's files to the place from
// which they run, before its instructions enter the session, and records it. An error prevents the
// activation.
type Stager interface {
	Stage(ctx context.Context, x *ToolContext, sk Skill) error
}

// Spec describes a tool. Grants, policy, and records use the name Canonical. The model sees
// ToolSpec.Name, which depends on the settings.
type Spec struct {
	model.ToolSpec
	Canonical string
	Effect    policy.Effect // the most severe effect it can have
}

// Facts describes what a call would do.
type Facts struct {
	policy.Request
	Intent json.RawMessage // for writes: the state before and after, see Tool.Facts
}

// Call is one tool call. The surface sets Actor and By; they never come from the arguments. A tool
// gets the active skills from its [ToolContext].
type Call struct {
	ID    string // unique in the session; a call that already returned gives the recorded result again
	Tool  string // as the model called it, or canonical
	Args  json.RawMessage
	Bad   bool // Args is not JSON, or nested too deep
	Actor policy.Actor
	By    string // the principal
	Try   int    // 0, or higher after a crash
	// Source is the activation source if the call activates a skill: model-tool, cli-preload,
	// user-explicit, or subagent-inherit. If it is empty, Actor determines it.
	Source string
	// Page is the maximum size of a skill tool's reply in bytes if Config.ToolsOnly is set; 0 means
	// no limit. The reply gives the offset of the rest.
	Page int
	// Claimed, if set, is called after the claim of the call is recorded and before the tool acts.
	Claimed func() `json:"-"`
	// Before, if set, blocks until the result may be recorded, so that results of concurrent calls
	// are recorded in the order of the calls.
	Before func() `json:"-"`
}

// mostNaming is the maximum size in bytes of a model's arguments for a tool that takes only names or
// a few words, and of an invalid call's arguments in a record; see kept.
const mostNaming = 16 << 10

// naming reports whether a tool takes only the name of a skill or a file, or a few words.
func naming(canonical string) bool {
	switch canonical {
	case settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolSearchSkills, settings.ToolListSkills, settings.ToolLoadContent:
		return true
	}
	return false
}

// tooLong returns the error for arguments of more than mostNaming bytes. It names the longest field.
func tooLong(raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // without fields, the error names none
	field, most := "", 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if n := len(name) + len(fields[name]); n > most {
			field, most = "field "+termtext.Quote(name)+" is too long: ", n
		}
	}
	return InvalidArguments("%sthe arguments have %d bytes, and the limit is %d; give only a name, a path, or a few words", field, len(raw), mostNaming)
}

// kept returns the arguments of a call as they are recorded. In a session with Config.ToolsOnly,
// long arguments of an invalid call are replaced by their size and digest. In others, the model's
// message, which contains them, is already recorded.
func (s *Session) kept(raw json.RawMessage, f Facts) json.RawMessage {
	switch {
	case raw == nil:
		return json.RawMessage("null")
	case f.Invalid == "" || !s.cfg.ToolsOnly || len(raw) <= mostNaming:
		return raw
	}
	b, _ := json.Marshal(map[string]any{"omitted": map[string]any{"bytes": len(raw), "digest": digest.Bytes(raw)}}) // plain data
	return b
}

// Result is the result of a tool. Detail, JSON or nil, is stored in the artifacts and not sent to
// the model.
type Result struct {
	Parts  []model.Part
	Code   string // "" is success
	Detail json.RawMessage
	Label  policy.Label

	err error // of a failure that was made in this process
}

// Text returns a result with one text part.
func Text(s string) Result { return Result{Parts: []model.Part{{Kind: model.PartResult, Text: s}}} }

// Observation is a result that passed policy.Release. Except for the zero value, which is empty,
// only a [Session] creates one, so every result that a model sees was checked.
type Observation struct{ r Result }

// Parts returns the parts that the model reads.
func (o Observation) Parts() []model.Part { return o.r.Parts }

// Code returns "" for success, or the code of the failure or refusal.
func (o Observation) Code() string { return o.r.Code }

// Detail returns the JSON for artifacts, or nil.
func (o Observation) Detail() json.RawMessage { return o.r.Detail }

// Text returns the text of all parts.
func (o Observation) Text() string {
	s := ""
	for _, p := range o.r.Parts {
		s += p.Text
	}
	return s
}

// NeedsApproval is the error of [Session.Call] if the call needs an approval. The call has had no
// effect. Pass the answer to [Session.Answer] and make the call again.
type NeedsApproval struct {
	Call     string
	Question policy.Question
}

func (n *NeedsApproval) Error() string {
	ask, _ := policy.SplitQuestion(n.Question.Text)
	return "needs approval: " + ask
}

// Suspended is the error of a tool's Invoke if its work is not finished: it waits for an answer to
// Question, or, if that is nil, for a call with a higher Try. The tool determines its own progress
// then. Only tools that perform runs with their own records can return it.
type Suspended struct{ Question *policy.Question }

func (*Suspended) Error() string { return "the call is suspended; make it again to continue" }

// ToolContext gives an invoked tool access to the session's skills, under the decision about the
// call. Its events are appended to the log together with the call's result, or not at all.
type ToolContext struct {
	s       *Session
	call    Call
	request policy.Request // that was allowed
	decided event.PolicyDecided
	intent  json.RawMessage
	active  []event.SkillRef
	events  []event.Event
	loads   []string // IDs of skills that the call activated
	offset  int64    // start of readResource
	last    bool     // the result counts even if one of loads became active in the meantime
}

// withdraw removes activations whose text is not shown.
func (x *ToolContext) withdraw() {
	x.loads = nil
	x.events = slices.DeleteFunc(x.events, func(e event.Event) bool { _, is := e.(event.SkillActivated); return is })
}

// stale reports whether a skill that this call activates became active with the same text in the
// meantime, so that its body would be inserted twice.
func (x *ToolContext) stale(st *State) bool {
	return slices.ContainsFunc(x.events, func(e event.Event) bool {
		act, is := e.(event.SkillActivated)
		if !is || !slices.Contains(x.loads, act.SkillID) {
			return false
		}
		old, was := st.active(act.SkillID)
		return was && old.Hash == act.Hash
	})
}

// Session returns the session, for its snapshot, view, and settings.
func (x *ToolContext) Session() *Session { return x.s }

// Call returns the call, including its arguments.
func (x *ToolContext) Call() Call { return x.call }

// Intent returns the Facts.Intent of the first claim of a write. After a crash, the tool compares
// it with the current state.
func (x *ToolContext) Intent() json.RawMessage { return x.intent }

// Answers returns the users' answers for this call or the whole session, keyed by Question.Binds.
func (x *ToolContext) Answers() map[string]policy.Answer {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	return x.s.state.answers(x.call.ID)
}

// Active returns the active skills.
func (x *ToolContext) Active() []event.SkillRef { return x.active }

// Activate loads a skill's instructions into the session. See [Session.Activate].
func (x *ToolContext) Activate(ctx context.Context, sk Skill, arguments []string) (Activation, string, error) {
	return x.s.activate(ctx, x, sk, arguments)
}

// Read reads a file of a skill under the read settings and records the read, including failures.
// max is in bytes; 0 selects the default.
func (x *ToolContext) Read(ctx context.Context, skill, path string, max int) (Reading, error) {
	return x.s.readResource(ctx, x, skill, path, max)
}

// Files returns a skill with its recorded files, and records them if they are not.
func (x *ToolContext) Files(ctx context.Context, sk Skill) (Skill, error) {
	return x.s.index(ctx, x, sk)
}

// Starts returns the check of the programs that the call starts, or nil if no rule could refuse one.
// It is safe for concurrent use.
func (x *ToolContext) Starts() func(policy.Started) policy.Decision {
	check := func(p policy.Started) policy.Decision { return x.s.judgeStart(x.request, p) }
	if check(policy.Started{Direct: true}).Allowed() {
		return nil
	}
	return check
}

// Refused records that a program was refused, and returns the error for the model.
func (x *ToolContext) Refused(program string, d policy.Decision) error {
	e := x.decided
	e.Stage, e.Outcome, e.Code, e.Rule = "program", d.Outcome, d.Code, d.Rule
	x.Record(e)
	err := &Error{Op: "run", Kind: Denied, Code: d.Code, Err: fmt.Errorf("%s was not started: %s", program, d.Reason)}
	if d.Code != policy.CodeRuleDenied {
		err.Hint = "make another call whose command shows it plainly, so that the user can be asked"
	}
	return err
}

// Readable reports whether the call may read a skill's files without an approval: the skill is
// visible to the model, and no rule denies it.
func (x *ToolContext) Readable(ctx context.Context, sk Skill) bool {
	return x.s.readable(ctx, x.call, sk)
}

// Put stores content in the record's blobs and returns a reference for events.
func (x *ToolContext) Put(ctx context.Context, media string, b []byte) (record.Ref, error) {
	ref, err := x.s.cfg.Blobs.Put(ctx, media, b)
	if err != nil {
		return ref, x.s.fault("record", err)
	}
	return ref, nil
}

// Files returns a skill with its files as the session knows them, without recording them. [Tool]
// implementations can use it in Facts.
func (s *Session) Files(ctx context.Context, sk Skill) (Skill, error) { return s.index(ctx, nil, sk) }

// Record adds an event to those of the call. Tools use it for notes. Activate and Read record skill
// events.
func (x *ToolContext) Record(e event.Event) { x.events = append(x.events, e) }

// Suspect records text of a skill that reads like an injection. It returns an error if the text
// must be withheld from the model.
func (x *ToolContext) Suspect(sk Skill, file, text string) error {
	return x.s.suspected(x, sk, file, text, 0)
}

// Hides reports whether the call must not show a skill: models do not see it, and it is not active.
func (x *ToolContext) Hides(sk Skill) bool { return x.s.hidden(x, sk) }

// Unchanged returns an error if the data of a skill's file must be withheld, because an ask rule
// covers the skill, or one nested in its folder, and its question is about other data.
func (x *ToolContext) Unchanged(ctx context.Context, sk Skill, file string, data []byte) error {
	return x.unchanged(ctx, sk, file, digest.Bytes(data))
}

func (x *ToolContext) unchanged(ctx context.Context, sk Skill, file, sum string) error {
	if in := x.s.innermost(sk, file); in.ID != sk.ID {
		file = strings.TrimPrefix(path.Join(sk.ID.Path, file), in.ID.Path+"/")
		sk = in
	}
	if !x.s.bound(sk) {
		return nil
	}
	full, err := x.s.index(ctx, x, sk)
	if err == nil {
		err = x.Approved(full)
	}
	if err != nil {
		return err
	}
	f, known := findResource(full, file)
	if file == sk.Head.FileName {
		f.Digest, known = full.Digest, true
	}
	if !known || string(f.Digest) != sum {
		return drifted("read", sk, file)
	}
	return nil
}

// source returns the recorded source of the call's activations.
func (x *ToolContext) source() string {
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
