package settings

// Way is a way for a skill to become active.
type Way string

// The values of Way, narrowest first.
const (
	WayPreload      Way = "preload"       // it is specified at the start of the run; skills that the operator specifies are loaded regardless of this setting
	WayLoadTool     Way = "load_tool"     // the model calls the load tool
	WayReadFile     Way = "read_file"     // the model reads an entire local SKILL.md
	WaySlash        Way = "slash"         // the user's task starts with /NAME
	WaySessionStart Way = "session_start" // the HARNESS.md of a discovered harness is loaded at the start of the session; a harness that you specify is loaded regardless of this setting
)

// Content is the text an activation delivers.
type Content string

// The values of Content, narrowest first.
const (
	ContentBody Content = "body"      // the body, without the frontmatter
	ContentMeta Content = "body+meta" // the frontmatter fields that matter to the model, then the body
	ContentRaw  Content = "raw"       // the whole file, unchanged
)

// InjectRole is the role in which an activation enters the conversation.
type InjectRole string

// The values of InjectRole, narrowest first.
const (
	InjectRoleContext    InjectRole = "context"     // context, never a command
	InjectRoleToolResult InjectRole = "tool_result" // the result of the call that loaded the skill; context if no call loaded it
	InjectRoleUser       InjectRole = "user"        // a user message that policy still treats as context; intended for skills that users load in interactive chats, which metier does not support yet
	InjectRoleSystem     InjectRole = "system"      // the system prompt
)

// Args says how arguments are put into a skill's text.
type Args string

// The values of Args, narrowest first.
const (
	ArgsNone    Args = "none"     // they are not inserted
	ArgsKeenRFC Args = "keen_rfc" // in place of $ARGUMENTS, $ARGUMENTS[N], and $0 to $9, counted from 0; the task also lists them on an Arguments line
	ArgsClaude  Args = "claude"   // same as keen_rfc; if there is no placeholder, the arguments are appended to the text
)

// Drift says what a run does when an active skill changed on disk.
type Drift string

// The values of Drift, narrowest first.
const (
	DriftFail   Drift = "fail"   // the run ends
	DriftWarn   Drift = "warn"   // the recorded text is used, and the change is reported
	DriftReload Drift = "reload" // the new text is used, and the change is reported
	DriftIgnore Drift = "ignore" // the recorded text is used until the skill is loaded again, and the change appears only in the record
)

// Ends reports whether the run ends.
func (d Drift) Ends() bool { return d == DriftFail }

// Keeps reports whether the recorded text is used, and the change is reported.
func (d Drift) Keeps() bool { return d == DriftWarn }

// Reloads reports whether the new text is used.
func (d Drift) Reloads() bool { return d == DriftReload }

// Bound returns what happens if an ask rule covers the skill. asked reports whether the rule's
// question was about the new text, and active whether the skill is active.
func (d Drift) Bound(asked, active bool) Drift {
	switch {
	case asked:
		return DriftReload
	case !active:
		return DriftFail
	case d.Ends():
		return d
	}
	return DriftWarn
}

// Silent reports whether the change appears only in the record.
func (d Drift) Silent() bool { return d == DriftIgnore }

// Injection says what becomes of skill text that looks like an injection.
type Injection string

// The values of Injection, narrowest first.
const (
	InjectionBlock     Injection = "block"           // it is not delivered
	InjectionUntrusted Injection = "block_untrusted" // it is not delivered if the skill's tier is third_party; otherwise, it is delivered, and an event is recorded
	InjectionEvent     Injection = "event"           // it is delivered, and an event is recorded
)

// Blocks reports whether text that reads like an injection is withheld;
// thirdParty says that it comes from that tier.
func (i Injection) Blocks(thirdParty bool) bool {
	return i == InjectionBlock || i == InjectionUntrusted && thirdParty
}

// ShowDigest says whether the model is shown digests of skills and resources.
type ShowDigest string

// The values of ShowDigest, narrowest first.
const (
	ShowDigestNo  ShowDigest = "no"  // no
	ShowDigestYes ShowDigest = "yes" // yes
)

// ResourceScope says which files of a skill may be read.
type ResourceScope string

// The values of ResourceScope, narrowest first.
const (
	ResourceScopeOneLevel ResourceScope = "one_level" // files in the skill's folder and in its direct subfolders
	ResourceScopeIndexed  ResourceScope = "indexed"   // files in the index
	ResourceScopeFolder   ResourceScope = "folder"    // any file in the skill's folder
)

// LateFiles says what becomes of a file that came after the index was made.
type LateFiles string

// The values of LateFiles, narrowest first.
const (
	LateFilesRefuse LateFiles = "refuse" // it is refused
	LateFilesMark   LateFiles = "mark"   // it is read, with a warning
)

// IndexRootFile says whether SKILL.md itself is a resource.
type IndexRootFile string

// The values of IndexRootFile, narrowest first.
const (
	IndexRootFileNo  IndexRootFile = "no"  // no
	IndexRootFileYes IndexRootFile = "yes" // yes
)

// Binary says how a binary file is read.
type Binary string

// The values of Binary, narrowest first.
const (
	BinaryRefuse   Binary = "refuse"   // an error
	BinaryMetadata Binary = "metadata" // its kind, size, and digest, but not its content
	BinaryBase64   Binary = "base64"   // its content as base64
	BinaryRaw      Binary = "raw"      // its raw bytes, or base64 if only text is possible
)

// ReadOver says what becomes of a file longer than the read may be.
type ReadOver string

// The values of ReadOver, narrowest first.
const (
	ReadOverRefuse   ReadOver = "refuse"   // it is refused
	ReadOverTruncate ReadOver = "truncate" // the first bytes are read, and the truncation is reported
)

// Reply is the form of what the skill tools answer.
type Reply string

// The values of Reply, narrowest first.
const (
	ReplyText     Reply = "text"     // text for the model
	ReplyPlain    Reply = "plain"    // only the text, without an enclosing element
	ReplyEnvelope Reply = "envelope" // a JSON object that contains the key ok and either the data or the error
)

// IfMatch says whether write_file and edit_file need the digest last read.
type IfMatch string

// The values of IfMatch, narrowest first.
const (
	IfMatchYes IfMatch = "yes" // a call without a digest, or with a stale one, is refused
	IfMatchNo  IfMatch = "no"  // the digest is checked only if the call includes one
)
