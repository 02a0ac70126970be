// Package policy answers two questions, purely: may this call happen, and may
// this result be shown to the model. It reads no file, no clock and no
// environment, keeps no state, and decides every request: what it cannot judge
// it denies.
//
// Authority only narrows. Grants come from the operator. A skill may take away
// (allowed-tools) and never add: nothing in a Request that stems from skill
// text can turn a deny into an allow.
package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Tier is how far a source of skills is trusted. The zero value is
// third_party.
type Tier string

// The tiers, most trusted first.
const (
	Builtin    Tier = "builtin"
	Org        Tier = "org"
	Project    Tier = "project"
	User       Tier = "user"
	ThirdParty Tier = "third_party"
)

// Or returns t, or third_party for the zero and any unknown value.
func (t Tier) Or() Tier {
	switch t {
	case Builtin, Org, Project, User:
		return t
	}
	return ThirdParty
}

// SourceType is the tier in the words of those who know four: builtin, org, user
// and third_party. A project counts as the user.
func (t Tier) SourceType() Tier {
	if t.Or() == Project {
		return User
	}
	return t.Or()
}

// Role is what a piece of text may be evidence for. It is set by the surface
// the text came in by and never derived from a chat role.
type Role string

// The roles. Only direct-command text authorizes effects in the enforce modes.
const (
	DirectCommand Role = "direct-command"
	Context       Role = "context"
	Quote         Role = "quote"
)

// Effect is the worst a call can do.
type Effect string

// The effect classes, mildest first.
const (
	Read       Effect = "read"
	Write      Effect = "write"
	SideEffect Effect = "side-effect"
)

// Mode is how strictly evidence is asked for.
type Mode string

// The enforcement modes, strictest last.
const (
	Disabled        Mode = "disabled"
	Observe         Mode = "observe"
	EnforceExplicit Mode = "enforce-explicit"
	EnforceStrict   Mode = "enforce-strict"
)

// Outcome is what Decide says of a call.
type Outcome string

// The outcomes. Warn allows and says why somebody might not have.
const (
	Allow Outcome = "allow"
	Warn  Outcome = "warn"
	Ask   Outcome = "ask"
	Deny  Outcome = "deny"
)

// Actor is who wants the call.
type Actor string

// The actors. An operator's own acts (a preload) need no tool grant and are
// direct commands themselves; deny rules bind everybody.
const (
	ByModel    Actor = "model"
	ByUser     Actor = "user"
	ByOperator Actor = "operator"
)

// Zone is where a path lies, as the tool that will open it found out.
type Zone string

// The zones. Outside is neither the workspace nor a skill folder.
const (
	ZoneWorkspace Zone = "workspace"
	ZoneSkill     Zone = "skill"
	ZoneDenied    Zone = "denied"
	ZoneOutside   Zone = "outside"
)

// Slot is one piece of this turn's text with its role: the evidence for acts.
type Slot struct {
	Role    Role   `json:"role"`
	Origin  string `json:"origin,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Surface string `json:"surface,omitempty"`
}

// Subject is a skill as policy sees it. AllowedTools is the list frozen at
// activation; Declared tells an empty list from none.
type Subject struct {
	ID           string   `json:"id"`
	Name         string   `json:"name,omitempty"`
	Digest       string   `json:"digest,omitempty"`
	Tree         string   `json:"tree,omitempty"`
	Tier         Tier     `json:"tier,omitempty"`
	AllowedTools []string `json:"allowedTools,omitempty"`
	Declared     bool     `json:"declared,omitempty"`
	// Named reports that Name finds this skill in the session and cannot be
	// another skill's ID. The gate sets it. It matters for names with a colon.
	Named bool `json:"-"`
}

// PathUse is one path a call would touch: the path as the model is shown it, links
// resolved, and its zone. Names are other paths of the same: as the model wrote it,
// as a file of its skill, and on the host. Rules that deny or ask match them too.
type PathUse struct {
	Path  string
	Names []string
	Zone  Zone
	Write bool
	Why   string // for a denied zone: the code of the reason
}

// Dynamic stands in Request.Commands for a word whose value is known only when
// the shell runs.
const Dynamic = "\x00"

// Request is what a call would do, as structured facts. The tool states them;
// policy parses no shell and no path.
type Request struct {
	Call, Tool string // call id; canonical tool name
	Args       string // digest of the arguments
	// Summary is the call in words for the person who is asked: a shell text as
	// it was written. It decides nothing; "" is made from the other facts.
	Summary string
	Actor   Actor
	Effect  Effect
	Skill   *Subject  // the skill acted on, if any
	Active  []Subject // active skills, whose allowed-tools may narrow

	// Commands are all simple commands of a shell text, however deep, each with
	// its words; Opaque says that they are not all it does (a redirect, an
	// assignment, a dynamic word …), so that it rides on no pattern, and
	// OpaqueWhy says what, for people.
	Commands  [][]string
	Opaque    bool
	OpaqueWhy string
	// Starts are all commands the text may start: Commands, and what those start
	// in turn (sh -c, env, xargs). One that is only {Dynamic} stands for what the
	// text does not determine. Rules that deny or ask, and the question about
	// destructive commands, go by these. Commands without Starts count as not
	// determined.
	Starts [][]string

	Paths []PathUse
	// Hosts are the hosts a call would reach, as written: exact or *.x. Network
	// is the canonical text of the network policy its job would get, "" for
	// none; with a Network and no Hosts any public host counts as reached.
	Hosts   []string
	Network string
	// Destructive says what a call would destroy, as far as its tool knows. What
	// Commands destroy need not be repeated.
	Destructive []string

	Entry   string // a script, as skill:scripts/path, normalised by the tool
	Runtime string // what would run it: bash, python3, deno …
	Level   string // sandbox level, L0 to L3
	Host    bool   // it runs on this machine itself by the operator's word, with its network

	// Profile is the subagent profile the call would start, "" for none. Within
	// names the subagent that would start it, "" for a run that is none: an answer
	// to a run does not cover the same call of its subagent.
	Profile, Within string
	Gives           []Subject // skills it would begin with, by the word of who calls

	Slots   []Slot // this turn's inputs
	Invalid string // the tool could not read its arguments: why, as a code
	// Broken is the code of what is wrong with a script beyond what the operator
	// allows (not indexed, changed, no runtime …), "" for nothing; BrokenWhy
	// says it in words. It is judged after the grant of the script, so that a
	// script nobody allowed tells nothing of itself, and before any question.
	Broken, BrokenWhy string
}

// Question is what has to be answered before a call may happen. Binds is a
// digest over everything the answer covers, so that a change revokes it.
// Text is the question on its first line, then what the answer covers, a line
// each; see Words.
type Question struct {
	ID     string   `json:"id"`
	Code   string   `json:"code"`
	Text   string   `json:"text"`
	Binds  string   `json:"binds"`
	Scopes []string `json:"scopes"`
	// Child and ChildCall are set where a subagent asks: the name of its record
	// below children/ of the asking run's, and its own call.
	Child     string `json:"child,omitempty"`
	ChildCall string `json:"childCall,omitempty"`
}

// Answer is a person's or a policy file's reply to a Question.
type Answer struct {
	Question string // its ID
	Allow    bool
	Scope    string // once, session, always
	By       string
	Note     string
}

// Decision is Decide's verdict. Code is one of the reason codes in codes.go and
// modes.go; Rule names the grant or setting that decided.
type Decision struct {
	Outcome  Outcome   `json:"outcome"`
	Code     string    `json:"code"`
	Rule     string    `json:"rule,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Risk     []string  `json:"risk,omitempty"`
	Question *Question `json:"question,omitempty"`
	// Consents are the questions that were answered with yes before the call,
	// in the order they come up. Set only where the call may go on.
	Consents []Consent `json:"consents,omitempty"`
}

// Consent is a question with the answer that lets the call pass. An answer of
// the operator's grants has no By.
type Consent struct {
	Question Question `json:"question"`
	Answer   Answer   `json:"answer"`
}

// Allowed reports whether the call may go on.
func (d Decision) Allowed() bool { return d.Outcome == Allow || d.Outcome == Warn }

// Label says where an observation came from and whether its producer mediated
// it, so that Release can judge it.
type Label struct {
	Role     Role   `json:"role"`
	Origin   string `json:"origin,omitempty"`
	Tier     Tier   `json:"tier,omitempty"`
	Mediated bool   `json:"mediated"`
}

// Narrowing is what an active skill's allowed-tools do.
type Narrowing string

// The values of the setting allowed_tools that Decide tells apart.
const (
	NarrowIgnore     Narrowing = "ignore"
	NarrowAdvise     Narrowing = "advise"
	NarrowNarrow     Narrowing = "narrow"
	NarrowEnforce    Narrowing = "enforce"
	NarrowPreapprove Narrowing = "enforce+preapprove"
)

// Merge is how the lists of several active skills combine.
type Merge string

// The values of the setting allowed_tools_merge.
const (
	MergeIntersection Merge = "intersection"
	MergeUnion        Merge = "union"
	MergeLast         Merge = "last"
)

// Grants is what the operator allowed. The zero value allows no tool.
type Grants struct {
	Mode     Mode     `json:"mode"`
	Tools    []string `json:"tools"`              // canonical names, exact
	Profiles []string `json:"profiles,omitempty"` // subagent profiles that may be started, exact
	Denied   []string `json:"denied,omitempty"`   // skill names or IDs that may not be used
	Scripts  []string `json:"scripts,omitempty"`  // exact skill:scripts/path, the skill by name or ID
	// Only are lists of the only skills that may be used, by name or ID with *
	// for any text; what has a colon and no * is an ID. A skill has to be in each
	// of them, and an empty list lets none pass. They take away and allow nothing
	// by themselves.
	Only   [][]string `json:"only,omitempty"`
	Narrow Narrowing  `json:"allowedTools"`
	Merge  Merge      `json:"merge"`

	ScriptRule ScriptRule  `json:"scriptRule,omitempty"` // "" is off
	Approval   Approval    `json:"approval,omitempty"`   // "" is always
	Network    NetworkRule `json:"network,omitempty"`    // "" is off
	Hosts      []string    `json:"hosts,omitempty"`      // hosts that may be reached unasked: exact or *.x
	// Approved are scripts of one tree each that the operator approved
	// beforehand: by naming them exactly or in a policy file.
	Approved []ApprovedScript `json:"approved,omitempty"`
	// Confined refuses reads outside of the workspace instead of asking about them.
	Confined bool `json:"confined,omitempty"`
	// BindArgs makes the approval of a script cover one set of arguments only.
	BindArgs bool        `json:"bindArgs,omitempty"`
	Rules    []Rule      `json:"rules,omitempty"`
	Skills   []SkillRule `json:"skills,omitempty"`
	// Answers holds what was approved before: Question.Binds, exact.
	Answers map[string]Answer `json:"-"`
}

// WithDefaults returns grants with the default for each empty field: mode observe,
// and lists of allowed tools that narrow and intersect. It fails for a value that does
// not exist.
func (g Grants) WithDefaults() (Grants, error) {
	g.Mode, g.Narrow, g.Merge = cmp.Or(g.Mode, Observe), cmp.Or(g.Narrow, NarrowNarrow), cmp.Or(g.Merge, MergeIntersection)
	for _, f := range []struct {
		field, value string
		known        []string
	}{
		{"Mode", string(g.Mode), []string{string(Disabled), string(Observe), string(EnforceExplicit), string(EnforceStrict)}},
		{"Narrow", string(g.Narrow), []string{string(NarrowIgnore), string(NarrowAdvise), string(NarrowNarrow), string(NarrowEnforce), string(NarrowPreapprove)}},
		{"Merge", string(g.Merge), []string{string(MergeIntersection), string(MergeUnion), string(MergeLast)}},
	} {
		if !slices.Contains(f.known, f.value) {
			return g, fmt.Errorf("field %s of the grants is %q; it is one of %s", f.field, f.value, strings.Join(f.known, ", "))
		}
	}
	return g, nil
}
