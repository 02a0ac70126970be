// Package subagent lets a model hand a task to a run of its own: a child with a
// fresh context, exactly the skills, scripts and tools of its profile, and a
// record of its own. The parent is given a summary and sanitized state and
// nothing else: not the child's transcript, not what its skills say, not what
// its programs print, not its raw failures.
//
// A profile is the operator's word, so it may name tools and scripts that the
// parent has not; no text of a skill and no argument of a call can change one.
package subagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/record"
)

// Runner runs children; a surface has one for each run. It is safe for
// concurrent use.
type Runner interface {
	// Run begins a child or, where there is one of that ID, goes on with it:
	// one that ended is not run again. It returns how the child ended, or, with
	// Outcome.Ask set, what it waits for. When ctx ends it stops the child, so
	// that it can be taken up again, and returns ctx's error. Any other error
	// says that its record cannot be used, unless it is Told.
	Run(ctx context.Context, c Child) (Outcome, error)
	// Ended returns how a child of this run ended, from its record. The code of
	// the error is unknown_handle where there is none that ended.
	Ended(ctx context.Context, id string) (Outcome, error)
}

// OpDelegate is the Op of an *metier.Error that says that there may be no such
// child.
const OpDelegate = "delegate"

// Told reports whether the model is told of an error of a Runner as it is.
func Told(err error) bool {
	e, is := errors.AsType[*metier.Error](err)
	return is && e.Op == OpDelegate
}

// Child is one child to run. ID is its name below the parent's run, the same at
// every try.
type Child struct {
	ID       string
	Profile  Profile
	Task     string
	Skills   []string        // that the call asked for, and the profile lets it
	Output   json.RawMessage // JSON schema of the final answer, or nil
	Manifest Manifest
	// Again says that the call was made before: where there is no child of that
	// ID now, it may have been lost.
	Again bool
	// Answers are what people said to questions of the parent's call, by
	// policy.Question.Binds. One that is for the parent's session holds for every
	// question that binds the same; any other for the one whose AskID it names.
	Answers map[string]policy.Answer
}

// Manifest is what a child was made to be, in its run-manifest.json.
type Manifest struct {
	Profile string   `json:"profile"`
	Parent  string   `json:"parent"` // id of the run that began it
	Call    string   `json:"call"`
	Depth   int      `json:"depth"` // 1 for the child of a run that is no child
	Skills  []string `json:"skills"`
	Scripts []string `json:"scripts"` // exactly those that may run
	Tools   []string `json:"tools"`
	Target  string   `json:"executionTarget"` // where Scripts run: sandbox, host
	Missing []string `json:"missingSkills"`   // of the profile, that are not there
	Return  string   `json:"returnChannel"`
}

// returnChannel is what a parent is given of a child, always.
const returnChannel = "summary-and-sanitized-state"

// Outcome is how a child stands.
type Outcome struct {
	Status string // of the run: done, failed, cancelled, denied
	Code   string // why it is not done
	Task   string // that it was given; what it names may be said again
	Answer string // its final text, as the child's model wrote it
	Output json.RawMessage
	Turns  int
	Usage  event.Usage
	Head   record.Head
	Skills []event.SkillRef
	Files  []string // paths in the workspace that it wrote, as the model names them
	// Private are the texts that do not leave the child: what its skills say,
	// what its programs print, its failures. Blind says that some of them cannot
	// be had any more, so that nothing can be compared with them.
	Private []string
	Blind   bool
	Denied  []event.Denial // its denied calls
	// Served are the skills of MCP servers of which it read anything.
	Served []event.SkillRef
	Ask    *policy.Question // its own call waits for an answer: ChildCall
}

// AskID is what a question of a child's call is called where its parent asks it:
// an answer for once holds for that one and no other.
func AskID(child, call, question string) string {
	sum := sha256.Sum256([]byte(child + "\n" + call + "\n" + question))
	return "q-" + hex.EncodeToString(sum[:8])
}

// Answer is what people said to a question of a child's call, if they did.
func (c Child) Answer(call string, q policy.Question) (policy.Answer, bool) {
	ans, ok := c.Answers[q.Binds]
	if !ok || !wide(ans) && ans.Question != AskID(c.ID, call, q.ID) {
		return policy.Answer{}, false
	}
	ans.Question = q.ID
	if ans.Scope == policy.ScopeAlways {
		ans.Scope = policy.ScopeSession // what holds always was kept where it was asked
	}
	return ans, true
}

// wide reports whether an answer holds for more than one question.
func wide(a policy.Answer) bool {
	return a.Scope == policy.ScopeSession || a.Scope == policy.ScopeAlways
}
