package event

import (
	"metier/policy"
	"metier/record"
)

// SessionOpened starts a session. Settings is the blob of every setting with its origin.
// Grants is the blob of the operator's grants.
type SessionOpened struct {
	Session  string     `json:"session"`
	Build    string     `json:"build"`
	Settings record.Ref `json:"settings"`
	Grants   record.Ref `json:"grants"`
	Launch   record.Ref `json:"launch"` // what a resume needs to open the session again; its form is the surface's
}

// SessionEnded ends a session that is not a run of the agent: a client of a server left,
// or a command ended. A record without it was interrupted, unless another process
// still writes to it.
type SessionEnded struct {
	Session   string `json:"session"`
	StateOnly bool   `json:"stateOnly,omitempty"` // the folder has no artifact except run-state.json
}

// SkillsDiscovered lists the skills that were found. Registry is the blob of the
// registry, which has everything that discovery knows about each skill. Instructions
// enter with SkillActivated.
type SkillsDiscovered struct {
	Registry    record.Ref `json:"registry"`
	Loaded      int        `json:"loaded"`
	Other       int        `json:"other"` // hidden, disabled, shadowed, refused
	Diagnostics int        `json:"diagnostics"`
	Sources     []Found    `json:"sources,omitempty"` // in the order of the registry; those without a skill are not there
}

// Found counts the skills of one source.
type Found struct {
	Label  string      `json:"label"`
	Source policy.Tier `json:"source"` // tier
	Loaded int         `json:"loaded"`
	Other  int         `json:"other"`
}

// ResourcesIndexed records that the files of one skill were indexed and hashed at its
// first use. Registry is the blob of its registry entry.
type ResourcesIndexed struct {
	SkillID  string     `json:"skillId"`
	Digest   string     `json:"digest"`
	Tree     string     `json:"tree"`
	Files    int        `json:"files"`
	Registry record.Ref `json:"registry"`
}

// Input is one input: what was typed, sent, or injected, with the role that the
// surface gave it.
type Input struct {
	ID      string      `json:"id"`
	Slot    policy.Slot `json:"slot"`
	Content record.Ref  `json:"content"` // blob of a model.Message
}

// SkillRef names a skill and the digest of its bytes.
type SkillRef struct {
	ID     string      `json:"id"`
	Name   string      `json:"name"`
	Digest string      `json:"digest"`
	Tree   string      `json:"tree,omitempty"`
	Tier   policy.Tier `json:"tier,omitempty"`
}

// PolicyDecided is one decision of policy (the policy trace).
type PolicyDecided struct {
	Call    string         `json:"call"`
	Tool    string         `json:"tool"`
	Actor   policy.Actor   `json:"actor"`
	Effect  policy.Effect  `json:"effect"`
	Skill   string         `json:"skill,omitempty"`
	Profile string         `json:"profile,omitempty"` // of the subagent the call would start
	Outcome policy.Outcome `json:"outcome"`
	Code    string         `json:"code"`
	Rule    string         `json:"rule,omitempty"`
	Risk    []string       `json:"risk,omitempty"`
	Args    record.Ref     `json:"args"`
	Active  []SkillRef     `json:"active,omitempty"`
	Slots   []policy.Slot  `json:"slots,omitempty"`
	Stage   string         `json:"stage"`           // call, program (one that the call started), release
	Fault   bool           `json:"fault,omitempty"` // it cannot run, and no rule denied it
}

// Verdict returns the outcome, or "failed" for a call that cannot run although no rule denied it.
func (e PolicyDecided) Verdict() string {
	if e.Fault {
		return "failed"
	}
	return string(e.Outcome)
}

// ApprovalRequested is a question that must be answered before a call, or a
// subagent, can continue.
type ApprovalRequested struct {
	Call      string     `json:"call"`
	ID        string     `json:"id"`
	Code      string     `json:"code"`
	Binds     string     `json:"binds"`
	Scopes    []string   `json:"scopes"`
	Text      record.Ref `json:"text"`
	Child     string     `json:"child,omitempty"`     // of a subagent: name of its folder below children/
	ChildCall string     `json:"childCall,omitempty"` // and the call there that asks; its record has what it asks
	SkillID   string     `json:"skillId,omitempty"`   // of the skill whose files a yes covers; "" in older records
	Tree      string     `json:"tree,omitempty"`      // of these files
}

// ApprovalAnswered is the answer to a question. A question that the operator's grants
// answered in advance has no ApprovalRequested.
type ApprovalAnswered struct {
	ID    string `json:"id"`
	Call  string `json:"call"`
	Binds string `json:"binds"`
	Allow bool   `json:"allow"`
	Scope string `json:"scope"`
	By    string `json:"by"`
	// Surface is where the answer was given, such as "cli". It is "" if no user was asked, and in
	// older records.
	Surface string `json:"surface,omitempty"`
}

// ApprovalExpired ends a question that was not answered. The call ends too, unless Again is set: then
// what the question covers has changed, and the call is decided again.
type ApprovalExpired struct {
	ID    string `json:"id"`
	Call  string `json:"call"`
	Again bool   `json:"again,omitempty"`
}

// ToolCallStarted claims a call: it is in the log before the call acts. For a write,
// Intent has the state before and the intended state after, so that a resume can
// determine whether the write happened.
type ToolCallStarted struct {
	ID     string        `json:"id"`
	Try    int           `json:"try"`
	Tool   string        `json:"tool"`
	Effect policy.Effect `json:"effect"`
	Args   record.Ref    `json:"args"`
	Intent record.Ref    `json:"intent"`
	Active []SkillRef    `json:"active,omitempty"`
}

// ToolResult ends a call. Code is empty for success. Content is the blob of the
// released []model.Part; Detail, if any, of the JSON the artifacts show.
type ToolResult struct {
	ID      string       `json:"id"`
	Tool    string       `json:"tool"`
	Code    string       `json:"code,omitempty"`
	Content record.Ref   `json:"content"`
	Detail  record.Ref   `json:"detail"`
	Label   policy.Label `json:"label"`
	Active  []SkillRef   `json:"active,omitempty"`
}

// ToolCallLost records that a call was started and its outcome is unknown.
type ToolCallLost struct {
	ID  string `json:"id"`
	Try int    `json:"try"`
}

// SkillActivated records that the instructions of a skill entered the session.
type SkillActivated struct {
	Call             string      `json:"call"`
	SkillID          string      `json:"skillId"`
	Name             string      `json:"name"`
	Hash             string      `json:"hash"` // digest of SKILL.md
	Tree             string      `json:"tree,omitempty"`
	Source           policy.Tier `json:"source"` // tier
	ActivationSource string      `json:"activationSource"`
	SessionID        string      `json:"sessionId"`
	TaskID           string      `json:"taskId,omitempty"`
	Path             string      `json:"path"` // SKILL.md as the model sees it, or the host path in artifacts' terms
	Dir              string      `json:"dir"`
	HostPath         string      `json:"hostPath,omitempty"`
	AllowedTools     []string    `json:"allowedTools,omitempty"`
	Declared         bool        `json:"declared,omitempty"`
	Text             record.Ref  `json:"text"`     // the block as given to the model
	Original         record.Ref  `json:"original"` // SKILL.md's bytes
	DigestChanged    bool        `json:"digestChanged,omitempty"`
	Role             policy.Role `json:"role"`
}

// SkillVersion is one version of a skill, with its allowed-tools.
type SkillVersion struct {
	SkillRef
	AllowedTools []string `json:"allowedTools,omitempty"`
	Declared     bool     `json:"declared,omitempty"`
}

// Subject returns the version for policy.
func (v SkillVersion) Subject() policy.Subject {
	return policy.Subject{ID: v.ID, Name: v.Name, Digest: v.Digest, Tree: v.Tree, Tier: v.Tier, AllowedTools: v.AllowedTools, Declared: v.Declared}
}

// ResourceRead is one read of a skill's file, including failed reads.
type ResourceRead struct {
	Call           string      `json:"call"`
	SkillID        string      `json:"skillId,omitempty"`
	Name           string      `json:"name,omitempty"`
	Source         policy.Tier `json:"source,omitempty"`
	Path           string      `json:"path"` // as asked for, control bytes escaped, at most 1,024 bytes
	Kind           string      `json:"kind,omitempty"`
	Status         string      `json:"status"` // read, binary, error
	Code           string      `json:"code,omitempty"`
	RegistryDigest string      `json:"registryDigest,omitempty"`
	ObservedDigest string      `json:"observedDigest,omitempty"`
	Matches        *bool       `json:"digestMatchesRegistry,omitempty"`
	RegistrySize   *int64      `json:"registrySizeBytes,omitempty"`
	ObservedSize   *int64      `json:"observedSizeBytes,omitempty"`
	ContentKind    string      `json:"contentKind,omitempty"`
	MaxBytes       int         `json:"maxBytes"`
	Truncated      bool        `json:"truncated"`
	Late           bool        `json:"late,omitempty"` // not in the index, read all the same by setting
	HostPath       string      `json:"hostPath,omitempty"`
	Role           policy.Role `json:"role"`
	// Skill is the version that was read, if reading the file restricts later calls.
	Skill *SkillVersion `json:"skill,omitempty"`
}

// FileRead is a read of a complete SKILL.md by a file tool that does not activate the
// skill.
type FileRead struct {
	Call    string `json:"call"`
	SkillID string `json:"skillId"`
	Digest  string `json:"digest"`
	// Skill is the version that was read.
	Skill *SkillVersion `json:"skill,omitempty"`
}

// SkillDrifted records that a file or a skill differs from the record.
type SkillDrifted struct {
	SkillID string `json:"skillId"`
	Path    string `json:"path"`
	Was     string `json:"was"` // empty: added since
	Now     string `json:"now"` // empty: gone
	Choice  string `json:"choice"`
}

// SkillSuspected records where text of a skill reads like a prompt injection. If
// Blocked is set, the text was not delivered.
type SkillSuspected struct {
	Call    string      `json:"call"`
	SkillID string      `json:"skillId"`
	Name    string      `json:"name"`
	Source  policy.Tier `json:"source"` // tier
	Path    string      `json:"path"`   // in the skill's folder
	Kind    string      `json:"kind"`   // override, prompt, secrecy, persona, template
	Offset  int         `json:"offset"` // in bytes of the file
	Blocked bool        `json:"blocked,omitempty"`
}

// CatalogSent records the current catalog of the model. Text is its blob, empty if there
// is no catalog. Tokens is an estimate. Omitted counts usable skills that are not
// listed. Of the listed skills, Cut have a shortened description and Dropped have none.
type CatalogSent struct {
	Text    record.Ref `json:"text"`
	Format  string     `json:"format"`
	Place   string     `json:"place"`
	Rung    string     `json:"rung"` // full, cut, names
	Tokens  int        `json:"tokens"`
	Budget  int        `json:"budget"` // 0: none
	Listed  int        `json:"listed"`
	Omitted int        `json:"omitted"`
	Search  string     `json:"search,omitempty"` // the tool that finds the omitted ones
	Cut     int        `json:"cut,omitempty"`
	Dropped int        `json:"dropped,omitempty"`
}

// Note is a recorded diagnostic: something was cut, skipped, moved, or replaced by a
// fallback.
type Note struct {
	Code string `json:"code"`
	On   string `json:"on,omitempty"` // the skill or call it is about
	N    int    `json:"n,omitempty"`  // how many

	// Severity and Text are those of a notice that the user was given.
	Severity string `json:"severity,omitempty"` // note, warning
	Text     string `json:"text,omitempty"`
}
