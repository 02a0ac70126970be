package settings

// Root is a kind of root that is searched without being named on the command line.
type Root string

// The values of Root, narrowest first.
const (
	RootExplicit Root = "explicit"     // roots the operator names
	RootProject  Root = "auto:project" // the skill folders of the workspace
	RootHome     Root = "auto:home"    // the skill folders of the home
	RootEnv      Root = "env"          // roots named by environment variables
	RootDB       Root = "db"           // skills stored per project
	RootHarness  Root = "harness"      // the skills of one harness folder
)

// RootScope says where a root may lie.
type RootScope string

// The values of RootScope, narrowest first.
const (
	RootScopeWorkspace   RootScope = "workspace"   // inside the workspace only
	RootScopeAllowlisted RootScope = "allowlisted" // inside the workspace or a folder the operator listed
	RootScopeAnywhere    RootScope = "anywhere"    // wherever the operator says
)

// Scan says how deep a root is searched for skills.
type Scan string

// The values of Scan, narrowest first.
const (
	ScanChildren  Scan = "children"  // the root itself or its direct children
	ScanRecursive Scan = "recursive" // any depth, up to the caps
	ScanGrouped   Scan = "grouped"   // any depth; groups and documents are entries too
)

// FileNames says which file names make an entry.
type FileNames string

// The values of FileNames, narrowest first.
const (
	FileNamesExact   FileNames = "exact"     // SKILL.md
	FileNamesLower   FileNames = "lower_too" // SKILL.md, else skill.md
	FileNamesHarness FileNames = "harness"   // SKILL.md and the HARNESS.md, SKILLS.md and REFERENCES.md of a harness
)

// Symlinks says what becomes of symbolic links. One that leaves its root is never followed.
type Symlinks string

// The values of Symlinks, narrowest first.
const (
	SymlinksIgnore   Symlinks = "ignore"    // links are not followed
	SymlinksInBounds Symlinks = "in_bounds" // links that stay in bounds are resolved once and opened by their target
)

// Reload says when the snapshot is built again.
type Reload string

// The values of Reload, narrowest first.
const (
	ReloadSnapshot Reload = "snapshot" // once, at the start
	ReloadAuto     Reload = "auto"     // per_turn in a conversation, snapshot in a batch run
	ReloadPerTurn  Reload = "per_turn" // before each turn
	ReloadTagged   Reload = "tagged"   // when a change of the store marks it stale
	ReloadWatch    Reload = "watch"    // when a file changes
	ReloadPerCall  Reload = "per_call" // whenever it is asked for
)

// ResourceIndex says when the files of a skill are indexed and hashed.
type ResourceIndex string

// The values of ResourceIndex, narrowest first.
const (
	ResourceIndexStart      ResourceIndex = "start"      // with the snapshot
	ResourceIndexActivation ResourceIndex = "activation" // when the skill is first used
)

// Validation says how strictly SKILL.md is judged on load.
type Validation string

// The values of Validation, narrowest first.
const (
	ValidationStrict  Validation = "strict"  // a skill with an error is refused
	ValidationLenient Validation = "lenient" // it is loaded with warnings
	ValidationMinimal Validation = "minimal" // only name and description are looked at
)

// NameCharset says which letters a name may have.
type NameCharset string

// The values of NameCharset, narrowest first.
const (
	NameCharsetASCII   NameCharset = "ascii"   // lower-case ASCII letters, digits and hyphens
	NameCharsetUnicode NameCharset = "unicode" // lower-case letters of any script, digits and hyphens
	NameCharsetAny     NameCharset = "any"     // anything on one line
)

// MissingName says what becomes of a skill without a name.
type MissingName string

// The values of MissingName, narrowest first.
const (
	MissingNameReject MissingName = "reject" // it is refused
	MissingNameFolder MissingName = "folder" // it takes its folder's name
)

// MissingDescription says what becomes of a skill without a description.
type MissingDescription string

// The values of MissingDescription, narrowest first.
const (
	MissingDescriptionReject    MissingDescription = "reject"          // it is refused
	MissingDescriptionSkip      MissingDescription = "skip"            // it is left out of the catalog
	MissingDescriptionFolder    MissingDescription = "folder"          // it takes its folder's name
	MissingDescriptionParagraph MissingDescription = "first_paragraph" // it takes the first paragraph of the body, else it is left out
)

// NoFrontmatter says what becomes of a SKILL.md without frontmatter.
type NoFrontmatter string

// The values of NoFrontmatter, narrowest first.
const (
	NoFrontmatterReject NoFrontmatter = "reject" // it is refused
	NoFrontmatterFollow NoFrontmatter = "follow" // as a missing name and a missing description
	NoFrontmatterPlain  NoFrontmatter = "plain"  // it is a plain Markdown skill named after its folder
)

// UnknownFields says what becomes of fields the specification does not name.
type UnknownFields string

// The values of UnknownFields, narrowest first.
const (
	UnknownFieldsReject UnknownFields = "reject" // an error
	UnknownFieldsIgnore UnknownFields = "ignore" // dropped
	UnknownFieldsKeep   UnknownFields = "keep"   // kept and shown, without effect
)

// KnownExtensions says which fields beyond the specification are known, so that UnknownFields does not touch them.
type KnownExtensions string

// The values of KnownExtensions, narrowest first.
const (
	KnownExtensionsNone   KnownExtensions = "none"   // none
	KnownExtensionsClaude KnownExtensions = "claude" // disable-model-invocation, user-invocable and their kin
)

// Identity says what a skill is called.
type Identity string

// The values of Identity, narrowest first.
const (
	IdentityEqual  Identity = "equal"  // frontmatter name and folder name must be equal
	IdentityPath   Identity = "path"   // its path below the root
	IdentityName   Identity = "name"   // the frontmatter name
	IdentityFolder Identity = "folder" // the folder's name
)

// Match says how a name asked for is compared.
type Match string

// The values of Match, narrowest first.
const (
	MatchExact    Match = "exact"    // byte by byte
	MatchNFKC     Match = "nfkc"     // after Unicode normalisation form KC
	MatchCasefold Match = "casefold" // trimmed, normalised and case-folded
)

// Protect says whether a skill of a lower tier may take the name of one of a higher tier.
type Protect string

// The values of Protect, narrowest first.
const (
	ProtectYes Protect = "yes" // it may not, whatever the precedence
	ProtectNo  Protect = "no"  // precedence decides alone
)

// CatalogFormat is the form of the catalog.
type CatalogFormat string

// The values of CatalogFormat, narrowest first.
const (
	CatalogFormatNone     CatalogFormat = "none"           // no catalog
	CatalogFormatMarkdown CatalogFormat = "markdown"       // a Markdown list
	CatalogFormatXML      CatalogFormat = "xml"            // an available_skills element
	CatalogFormatPaths    CatalogFormat = "markdown_paths" // a Markdown list with the path of each SKILL.md
)

// CatalogPlace is where the catalog stands.
type CatalogPlace string

// The values of CatalogPlace, narrowest first.
const (
	CatalogPlaceNone   CatalogPlace = "none"   // nowhere
	CatalogPlaceTool   CatalogPlace = "tool"   // in the description of the load tool
	CatalogPlaceSystem CatalogPlace = "system" // in the system prompt
)

// EmptyCatalog says what the model is told when there is no skill.
type EmptyCatalog string

// The values of EmptyCatalog, narrowest first.
const (
	EmptyCatalogSilent  EmptyCatalog = "silent"   // nothing
	EmptyCatalogSayNone EmptyCatalog = "say_none" // one sentence
)

// Paths says which paths of skills the model sees.
type Paths string

// The values of Paths, narrowest first.
const (
	PathsNone    Paths = "none"    // none
	PathsSkill   Paths = "skill"   // relative to the skill or harness
	PathsRepo    Paths = "repo"    // relative to the repository
	PathsSandbox Paths = "sandbox" // /skills/NAME/...
	PathsAuto    Paths = "auto"    // sandbox where the run is sandboxed, else host
	PathsHost    Paths = "host"    // paths of the host
)

// Way is a way for a skill to become active.
type Way string

// The values of Way, narrowest first.
const (
	WayPreload      Way = "preload"       // named when the run starts
	WayLoadTool     Way = "load_tool"     // the model calls the load tool
	WayReadFile     Way = "read_file"     // the model reads a whole local SKILL.md
	WaySlash        Way = "slash"         // the user types /NAME
	WaySessionStart Way = "session_start" // with the session, unasked
)

// Content is the text an activation delivers.
type Content string

// The values of Content, narrowest first.
const (
	ContentBody Content = "body"      // without the frontmatter
	ContentMeta Content = "body+meta" // the body after the fields that matter to the reader
	ContentRaw  Content = "raw"       // the file as it is
)

// InjectRole is the role in which an activation enters the conversation.
type InjectRole string

// The values of InjectRole, narrowest first.
const (
	InjectRoleContext    InjectRole = "context"     // context, never a command
	InjectRoleToolResult InjectRole = "tool_result" // the result of the call
	InjectRoleUser       InjectRole = "user"        // a user message that policy still sees as context
	InjectRoleSystem     InjectRole = "system"      // the system prompt
)

// Args says how arguments are put into a skill's text.
type Args string

// The values of Args, narrowest first.
const (
	ArgsNone    Args = "none"     // not at all
	ArgsKeenRFC Args = "keen_rfc" // $ARGUMENTS, $ARGUMENTS[N] and $0 to $9, counted from 0; an Arguments line
	ArgsClaude  Args = "claude"   // as keen_rfc; without a placeholder the arguments follow the text
)

// DriftBatch says what a batch run does when an active skill changed on disk.
type DriftBatch string

// The values of DriftBatch, narrowest first.
const (
	DriftBatchFail   DriftBatch = "fail"   // it ends
	DriftBatchWarn   DriftBatch = "warn"   // it keeps the frozen text and says so
	DriftBatchReload DriftBatch = "reload" // it takes the new text and says so
	DriftBatchIgnore DriftBatch = "ignore" // it takes what is there
)

// DriftInteractive is DriftBatch for conversations.
type DriftInteractive string

// The values of DriftInteractive, narrowest first.
const (
	DriftInteractiveFail   DriftInteractive = "fail"   // it ends
	DriftInteractiveWarn   DriftInteractive = "warn"   // it keeps the frozen text and says so
	DriftInteractiveReload DriftInteractive = "reload" // it takes the new text and says so
	DriftInteractiveIgnore DriftInteractive = "ignore" // it takes what is there
)

// Injection says what becomes of skill text that looks like an injection.
type Injection string

// The values of Injection, narrowest first.
const (
	InjectionBlock     Injection = "block"           // not delivered
	InjectionUntrusted Injection = "block_untrusted" // not delivered when its tier is third_party; else an event
	InjectionEvent     Injection = "event"           // delivered, with an event
)

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
	ResourceScopeOneLevel ResourceScope = "one_level" // files of the folder and of its direct subfolders
	ResourceScopeIndexed  ResourceScope = "indexed"   // files of the index
	ResourceScopeFolder   ResourceScope = "folder"    // any file of the folder
)

// LateFiles says what becomes of a file that came after the index was made.
type LateFiles string

// The values of LateFiles, narrowest first.
const (
	LateFilesRefuse LateFiles = "refuse" // it is refused
	LateFilesMark   LateFiles = "mark"   // it is read and marked as late
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
	BinaryRefuse   Binary = "refuse"   // with an error
	BinaryMetadata Binary = "metadata" // kind, size and digest, no content
	BinaryBase64   Binary = "base64"   // as base64
	BinaryRaw      Binary = "raw"      // its bytes; where only text fits, base64
)

// ReadOver says what becomes of a file longer than the read may be.
type ReadOver string

// The values of ReadOver, narrowest first.
const (
	ReadOverRefuse   ReadOver = "refuse"   // it is refused
	ReadOverTruncate ReadOver = "truncate" // the first bytes are read and the cut is reported
)

// Reply is the form of what the skill tools answer.
type Reply string

// The values of Reply, narrowest first.
const (
	ReplyText     Reply = "text"     // text for the model
	ReplyEnvelope Reply = "envelope" // a JSON object with ok, and the data or the error
)

// IfMatch says whether write_file and edit_file need the digest last read.
type IfMatch string

// The values of IfMatch, narrowest first.
const (
	IfMatchYes IfMatch = "yes" // a call without it, or with a stale one, is refused
	IfMatchNo  IfMatch = "no"  // it is checked when given
)

// Scripts says which scripts of skills may run.
type Scripts string

// The values of Scripts, narrowest first.
const (
	ScriptsOff     Scripts = "off"         // none
	ScriptsExact   Scripts = "exact"       // those the operator named
	ScriptsTiered  Scripts = "tiered"      // those the tier allows, after approval
	ScriptsBundled Scripts = "any_bundled" // any file of an active skill
)

// Approval says which scripts need an approval.
type Approval string

// The values of Approval, narrowest first.
const (
	ApprovalAlways Approval = "always"  // each
	ApprovalByTier Approval = "by_tier" // those of user and third_party
	ApprovalNever  Approval = "never"   // none
)

// Runtime is a way to run a script.
type Runtime string

// The values of Runtime, narrowest first.
const (
	RuntimeBash       Runtime = "bash"       // bash
	RuntimeSh         Runtime = "sh"         // sh
	RuntimeDeno       Runtime = "deno"       // deno run
	RuntimePython     Runtime = "python"     // python3
	RuntimeNode       Runtime = "node"       // node
	RuntimeRuby       Runtime = "ruby"       // ruby
	RuntimeGo         Runtime = "go"         // go run
	RuntimeRust       Runtime = "rust"       // rust-script
	RuntimeExecutable Runtime = "executable" // an executable file, by its shebang
)

// Stage says how code reaches the sandbox.
type Stage string

// The values of Stage, narrowest first.
const (
	StageStdin Stage = "stdin"       // the one file on standard input; no helpers beside it
	StageTree  Stage = "staged_tree" // an immutable copy of the skill's verified files
)

// Cwd is the working folder of a script.
type Cwd string

// The values of Cwd, narrowest first.
const (
	CwdSkill     Cwd = "skill"     // the skill's folder
	CwdWorkspace Cwd = "workspace" // the root of the workspace
	CwdCall      Cwd = "call"      // what the call asks for, inside the workspace
)

// Network says which network a script has. It is always our proxy, never a raw network.
type Network string

// The values of Network, narrowest first.
const (
	NetworkOff    Network = "off"    // none
	NetworkTiered Network = "tiered" // granted hosts, and none for third_party
	NetworkOn     Network = "on"     // any public host
)

// HostCDP says whether a browser script on the host may be given --cdp.
type HostCDP string

// The values of HostCDP, narrowest first.
const (
	HostCDPForbid  HostCDP = "forbid"  // it must not be given
	HostCDPRequire HostCDP = "require" // it must be given
)

// MissingDependency says what becomes of a skill whose dependency is not there.
type MissingDependency string

// The values of MissingDependency, narrowest first.
const (
	MissingDependencyReject MissingDependency = "reject" // it does not run
	MissingDependencyWarn   MissingDependency = "warn"   // it runs with a warning
)

// Target is where scripts run.
type Target string

// The values of Target, narrowest first.
const (
	TargetSandbox Target = "sandbox" // in the sandbox
	TargetHost    Target = "host"    // on the host
)

// AllowedTools says what a skill's allowed-tools field does. It never adds authority.
type AllowedTools string

// The values of AllowedTools, narrowest first.
const (
	AllowedToolsEnforce    AllowedTools = "enforce"            // while a skill that declares it is active, every other call is denied
	AllowedToolsNarrow     AllowedTools = "narrow"             // calls beyond it are denied unless the operator granted that exact call
	AllowedToolsAdvise     AllowedTools = "advise"             // calls beyond it are reported
	AllowedToolsIgnore     AllowedTools = "ignore"             // nothing
	AllowedToolsPreapprove AllowedTools = "enforce+preapprove" // enforce, and a listed call that the operator already allows is not asked for
)

// Merge says how the allowed-tools of several active skills combine.
type Merge string

// The values of Merge, narrowest first.
const (
	MergeIntersection Merge = "intersection" // a call must satisfy all that declare it
	MergeLast         Merge = "last"         // the skill activated last decides
	MergeUnion        Merge = "union"        // a call must satisfy one
)

// Mode is the enforcement mode of the policy.
type Mode string

// The values of Mode, narrowest first.
const (
	ModeStrict   Mode = "enforce-strict"   // deny unless the prompt slot is a direct command, reads too
	ModeExplicit Mode = "enforce-explicit" // reads pass; the rest needs a direct command
	ModeObserve  Mode = "observe"          // as enforce-explicit, but it warns only
	ModeDisabled Mode = "disabled"         // no slot rules; grants and tiers still hold
)

// SlotRole is the role of the prompt slot of typed input.
type SlotRole string

// The values of SlotRole, narrowest first.
const (
	SlotRoleQuote   SlotRole = "quote"          // a quotation
	SlotRoleContext SlotRole = "context"        // context
	SlotRoleDirect  SlotRole = "direct-command" // a direct command
)

// GuardAllow says what file tools may read outside the workspace because skills are there.
type GuardAllow string

// The values of GuardAllow, narrowest first.
const (
	GuardAllowNone      GuardAllow = "none"       // nothing
	GuardAllowSkillDirs GuardAllow = "skill_dirs" // the folders of known skills
	GuardAllowRoots     GuardAllow = "roots"      // the discovered roots
)

// Layout is the layout of a harness folder.
type Layout string

// The values of Layout, narrowest first.
const (
	LayoutV1   Layout = "v1"   // skills and references, SKILLS.md and REFERENCES.md
	LayoutV2   Layout = "v2"   // any folder, leaf files, leaf detectors
	LayoutAuto Layout = "auto" // v2 where its signs are found, else v1
)

// GroupSummary says what a group without its summary file is.
type GroupSummary string

// The values of GroupSummary, narrowest first.
const (
	GroupSummaryError GroupSummary = "error" // an error
	GroupSummaryWarn  GroupSummary = "warn"  // a warning
)

// Inherit says which active skills a child run begins with.
type Inherit string

// The values of Inherit, narrowest first.
const (
	InheritNone   Inherit = "none"   // none
	InheritListed Inherit = "listed" // those its profile lists
	InheritAll    Inherit = "all"    // all of its parent's
)

// UnknownSlash says what becomes of a typed /name that is no command and no skill.
type UnknownSlash string

// The values of UnknownSlash, narrowest first.
const (
	UnknownSlashError  UnknownSlash = "error"  // an error that lists what there is
	UnknownSlashNotice UnknownSlash = "notice" // a notice; nothing is sent
	UnknownSlashPass   UnknownSlash = "pass"   // it is sent to the model as text
)

// Origin is where a skill may be installed from.
type Origin string

// The values of Origin, narrowest first.
const (
	OriginLocal    Origin = "local"    // a local folder
	OriginZip      Origin = "zip"      // an archive
	OriginRegistry Origin = "registry" // a registry, pinned
)

// ArchiveLayout says how an archive must be laid out.
type ArchiveLayout string

// The values of ArchiveLayout, narrowest first.
const (
	ArchiveLayoutWrapper ArchiveLayout = "wrapper" // one folder that holds SKILL.md
	ArchiveLayoutEither  ArchiveLayout = "either"  // one folder, or SKILL.md at the top
)

// InstallValidation says how strictly SKILL.md is judged before it is installed.
type InstallValidation string

// The values of InstallValidation, narrowest first.
const (
	InstallValidationStrict  InstallValidation = "strict"  // an error refuses the install
	InstallValidationLenient InstallValidation = "lenient" // it is installed with warnings
	InstallValidationMinimal InstallValidation = "minimal" // only name and description are looked at
)

// The kinds that Names.Precedence lists.
const (
	KindRoots      = "roots" // the order in which the roots were named
	KindDB         = "db"
	KindProject    = "project"
	KindUser       = "user"
	KindOrg        = "org"
	KindBuiltin    = "builtin"
	KindThirdParty = "third_party"
)

// The canonical names of the tools that Tools.Default may list. Tools that run code or reach the network are not among
// them: those are granted by name only.
const (
	ToolReadFile          = "read_file"
	ToolListFiles         = "list_files"
	ToolSearchFiles       = "search_files"
	ToolLoadSkill         = "load_skill"
	ToolReadSkillResource = "read_skill_resource"
	ToolListSkills        = "list_skills"
	ToolSearchSkills      = "search_skills"
	ToolWriteFile         = "write_file"
	ToolEditFile          = "edit_file"
)
