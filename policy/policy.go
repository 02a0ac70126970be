// Package policy decides whether a call may happen, and whether the model may see its
// result. It is pure: it reads no files, clocks, or environment variables, and keeps
// no state. It decides every request, and denies a request that it cannot check.
//
// Authority only narrows. Grants come from the operator. A skill can remove authority
// (allowed-tools) and never add it: no part of a Request that comes from skill text
// can turn a deny into an allow.
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

// ByName reports whether the operator can mean a skill of this tier by its name where an entry gives
// it something. Skills of a project or a third party choose their names themselves, so they need
// their IDs.
func (t Tier) ByName() bool { return t.Or() != Project && t.Or() != ThirdParty }

// SourceType returns the tier for formats with four tiers: builtin, org, user, and
// third_party. A project counts as user.
func (t Tier) SourceType() Tier {
	if t.Or() == Project {
		return User
	}
	return t.Or()
}

// Role determines what a text can be evidence for. The surface that received the text
// sets it; it is never derived from a chat role.
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

// Outcome is the result of [Decide].
type Outcome string

// The outcomes. Warn allows the call with a warning.
const (
	Allow Outcome = "allow"
	Warn  Outcome = "warn"
	Ask   Outcome = "ask"
	Deny  Outcome = "deny"
)

// Actor is the initiator of a call.
type Actor string

// The actors. An operator's own calls (a preload) need no tool grant and are direct
// commands. Deny rules apply to all actors.
const (
	ByModel    Actor = "model"
	ByUser     Actor = "user"
	ByOperator Actor = "operator"
)

// Zone is the location of a path, determined by the tool that opens it.
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

// Subject describes a skill for policy. AllowedTools is the list frozen at activation.
// Declared distinguishes an empty list from a missing one.
type Subject struct {
	ID           string   `json:"id"`
	Name         string   `json:"name,omitempty"` // in form NFKC, so that a rule finds every spelling
	Digest       string   `json:"digest,omitempty"`
	Tree         string   `json:"tree,omitempty"`
	Tier         Tier     `json:"tier,omitempty"`
	AllowedTools []string `json:"allowedTools,omitempty"`
	Declared     bool     `json:"declared,omitempty"`
	// Named reports that Name finds this skill in the session and cannot be
	// another skill's ID. The gate sets it. It matters for names with a colon.
	Named bool `json:"-"`
}

// WhyInSkills is a PathUse.Why of a write: the workspace or mount is in a folder of skills. The code of
// the decision is CodePathReadOnly.
const WhyInSkills = "workspace_read_only"

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

// Dynamic represents a word in Request.Commands whose value is known only when the
// shell runs.
const Dynamic = "\x00"

// Request describes what a call would do as structured facts. The tool states them;
// policy does not parse shell text or paths.
type Request struct {
	Call, Tool string // call id; canonical tool name
	Args       string // digest of the arguments
	// Summary describes the call to the user in a question, for example the original
	// shell text. It does not affect decisions. If it is empty, it is generated from
	// the other facts.
	Summary string
	Actor   Actor
	Effect  Effect
	Skill   *Subject  // the skill acted on, if any
	Active  []Subject // active skills, whose allowed-tools may narrow
	Told    []Subject // skills whose instructions the model read otherwise; they restrict like active ones

	// Commands lists all simple commands of a shell text at any depth, each with its
	// words. Opaque reports that the text does more (a redirect, an assignment, a
	// dynamic word …), so that no pattern can allow it. OpaqueWhy gives the reason for
	// users.
	Commands  [][]string
	Opaque    bool
	OpaqueWhy string
	// Starts lists all commands that the text may start: Commands, and the commands
	// they start in turn (sh -c, env, xargs). An entry of only {Dynamic} represents
	// commands that the text does not determine. Rules that deny or ask, and the
	// question about destructive commands, use this list. Commands without Starts
	// count as undetermined.
	Starts [][]string

	Paths []PathUse
	// Hosts lists the hosts that a call would reach, as written: exact or *.x. Network
	// is the canonical text of the network policy of its job, or "" for no network.
	// With a Network and no Hosts, the call can reach any public host.
	Hosts   []string
	Network string
	// Destructive lists what a call would destroy, as far as its tool knows, except
	// for what Commands destroy.
	Destructive []string

	Entry   string // a script, as skill:scripts/path, normalised by the tool
	Runtime string // what would run it: bash, python, deno …
	// Programs are the programs that would start it: that of the runtime, and the one that its first
	// line names.
	Programs []string
	Level    string // sandbox level, L0 to L3
	Host     bool   // it runs on this machine itself by the operator's word, with its network

	// Profile is the subagent profile that the call would start, or "". Within names
	// the calling subagent, or "" for a run: an answer for a run does not cover the
	// same call of its subagent.
	Profile, Within string
	// Gives are other skills whose rules apply as if the call loaded them: those that a subagent would
	// start with, as requested by the caller, and a skill inside Skill whose script would run.
	Gives []Subject

	Slots   []Slot // this turn's inputs
	Invalid string // the tool could not read its arguments: why, as a code
	// Broken is the code of a script's problem other than a missing grant (not
	// indexed, changed, no runtime …), or "". BrokenWhy describes it. It is checked
	// after the grant of the script, so that a script without a grant reveals nothing,
	// and before any question.
	Broken, BrokenWhy string
	// Fault is set if Broken is a failure of the script or the host, such as a missing interpreter,
	// and not a refusal.
	Fault bool
}

// Question is what has to be answered before a call may happen. Binds is a
// digest over everything the answer covers, so that a change revokes it.
// Text is the question on its first line, then what the answer covers, a line
// each; see SplitQuestion.
type Question struct {
	ID     string   `json:"id"`
	Code   string   `json:"code"`
	Text   string   `json:"text"`
	Binds  string   `json:"binds"`
	Scopes []string `json:"scopes"`
	// Child and ChildCall are set if a subagent asks: the name of its record below
	// children/ of the parent's record, and its own call.
	Child     string `json:"child,omitempty"`
	ChildCall string `json:"childCall,omitempty"`
	// SkillID and Tree are set if a yes covers a skill's files.
	SkillID string `json:"skillId,omitempty"`
	Tree    string `json:"tree,omitempty"`
}

// Answer is the reply of a user or a policy file to a [Question].
type Answer struct {
	Question string // its ID
	Allow    bool
	Scope    string // once, session, always
	By       string
	Surface  string // where it was given, such as "cli"; "": no user was asked
}

// Decision is Decide's verdict. Code is one of the reason codes in codes.go and
// modes.go; Rule names the grant or setting that decided.
type Decision struct {
	Outcome Outcome  `json:"outcome"`
	Code    string   `json:"code"`
	Rule    string   `json:"rule,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Risk    []string `json:"risk,omitempty"`
	// Fault reports that the call cannot succeed, but that no rule denies it. The Outcome is Deny.
	Fault    bool      `json:"fault,omitempty"`
	Question *Question `json:"question,omitempty"`
	// Consents lists the questions that were answered with yes before the call, in
	// order. It is set only if the call may proceed.
	Consents []Consent `json:"consents,omitempty"`
}

// Consent is a question with the answer that allows the call. An answer from the
// operator's grants has no By.
type Consent struct {
	Question Question `json:"question"`
	Answer   Answer   `json:"answer"`
}

// Allowed reports whether the call may go on.
func (d Decision) Allowed() bool { return d.Outcome == Allow || d.Outcome == Warn }

// Label gives the origin of an observation and whether its producer mediated it, for
// [Release].
type Label struct {
	Role     Role   `json:"role"`
	Origin   string `json:"origin,omitempty"`
	Tier     Tier   `json:"tier,omitempty"`
	Mediated bool   `json:"mediated"`
}

// Narrowing is what an active skill's allowed-tools do.
type Narrowing string

// The values of the setting allowed_tools that [Decide] distinguishes.
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

// Grants lists what the operator allowed. The zero value allows no tools.
type Grants struct {
	Mode     Mode     `json:"mode"`
	Tools    []string `json:"tools"`              // canonical names, exact
	Profiles []string `json:"profiles,omitempty"` // subagent profiles that may be started, by exact name
	Denied   []string `json:"denied,omitempty"`   // skill names or IDs that may not be used
	Scripts  []string `json:"scripts,omitempty"`  // exact skill:scripts/path, the skill by name or ID
	// Only lists the skills that may be used, by name or ID, with * for any text. An
	// entry with a colon and no * is an ID. A skill must match every list, and an
	// empty list matches no skill. The lists only restrict.
	Only   [][]string `json:"only,omitempty"`
	Narrow Narrowing  `json:"allowedTools"`
	Merge  Merge      `json:"merge"`

	ScriptRule ScriptRule  `json:"scriptRule,omitempty"` // "" is off
	Approval   Approval    `json:"approval,omitempty"`   // "" is always
	Network    NetworkRule `json:"network,omitempty"`    // "" is off
	Hosts      []string    `json:"hosts,omitempty"`      // hosts that may be reached without a question: exact or *.x
	// Approved are scripts of one tree each that the operator approved
	// beforehand: by naming them exactly or in a policy file.
	Approved []ApprovedScript `json:"approved,omitempty"`
	// Inherited are the skills that were active in the parents of a subagent, or
	// whose instructions their models read. Rules that restrict for them apply.
	Inherited []Subject `json:"inherited,omitempty"`
	// Confined refuses reads outside of the workspace instead of asking about them.
	Confined bool `json:"confined,omitempty"`
	// BindArgs limits the approval of a script to one set of arguments.
	BindArgs bool        `json:"bindArgs,omitempty"`
	Rules    []Rule      `json:"rules,omitempty"`
	Skills   []SkillRule `json:"skills,omitempty"`
	// Answers lists earlier approvals by exact Question.Binds.
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
