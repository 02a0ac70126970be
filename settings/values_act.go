package settings

// Scripts says which scripts of skills may run.
type Scripts string

// The values of Scripts, narrowest first.
const (
	ScriptsOff     Scripts = "off"         // none
	ScriptsExact   Scripts = "exact"       // scripts that the operator allowed by name
	ScriptsTiered  Scripts = "tiered"      // scripts of active skills, depending on the skill's tier
	ScriptsBundled Scripts = "any_bundled" // any script of a known skill
)

// Approval says which scripts need approval.
type Approval string

// The values of Approval, narrowest first.
const (
	ApprovalAlways Approval = "always"  // every script
	ApprovalByTier Approval = "by_tier" // scripts of skills in the project, user, and third_party tiers
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
	RuntimePerl       Runtime = "perl"       // perl
	RuntimeGo         Runtime = "go"         // go run
	RuntimeRust       Runtime = "rust"       // rust-script
	RuntimePwsh       Runtime = "pwsh"       // pwsh
	RuntimeExecutable Runtime = "executable" // any executable named in the script's shebang
)

// Stage says how code reaches the sandbox.
type Stage string

// The values of Stage, narrowest first.
const (
	StageStdin Stage = "stdin"       // as one file on standard input, without the skill's other files
	StageTree  Stage = "staged_tree" // as an immutable copy of the skill's verified files
)

// Cwd is the working folder of a script.
type Cwd string

// The values of Cwd, narrowest first.
const (
	CwdSkill     Cwd = "skill"     // the skill's folder
	CwdWorkspace Cwd = "workspace" // the workspace's root, or the folder in it that the call specifies
	CwdCall      Cwd = "call"      // the folder in the workspace or in the skill that the call specifies
)

// Network says which network a script has. It is always our proxy, never a raw network.
type Network string

// The values of Network, narrowest first.
const (
	NetworkOff    Network = "off"    // none
	NetworkTiered Network = "tiered" // granted hosts; other hosts need approval, and are refused for third_party skills
	NetworkOn     Network = "on"     // any public host
)

// HostCDP says whether a browser script on the host may be given --cdp.
type HostCDP string

// The values of HostCDP, narrowest first.
const (
	HostCDPForbid  HostCDP = "forbid"  // it must not pass --cdp
	HostCDPRequire HostCDP = "require" // it must pass --cdp
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
	AllowedToolsEnforce    AllowedTools = "enforce"            // same as narrow
	AllowedToolsNarrow     AllowedTools = "narrow"             // calls that are not covered by the active skills' lists are denied
	AllowedToolsAdvise     AllowedTools = "advise"             // calls that are not covered by the lists are allowed and reported
	AllowedToolsIgnore     AllowedTools = "ignore"             // no effect
	AllowedToolsPreapprove AllowedTools = "enforce+preapprove" // same as enforce; a listed call that the operator also allows needs no approval, unless the skill is third_party
)

// Merge says how the allowed-tools of several active skills combine.
type Merge string

// The values of Merge, narrowest first.
const (
	MergeIntersection Merge = "intersection" // a call must satisfy every list
	MergeLast         Merge = "last"         // only the list of the most recently activated skill applies
	MergeUnion        Merge = "union"        // a call must satisfy at least one list
)

// Mode is the enforcement mode of the policy.
type Mode string

// The values of Mode, narrowest first.
const (
	ModeStrict   Mode = "enforce-strict"   // every call requires a direct command, including reads
	ModeExplicit Mode = "enforce-explicit" // writes and side effects require a direct command
	ModeObserve  Mode = "observe"          // same as enforce-explicit, but a missing command only causes a warning
	ModeDisabled Mode = "disabled"         // prompt slots are not checked; grants and tiers still apply
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
	GuardAllowNone      GuardAllow = "none"       // none
	GuardAllowSkillDirs GuardAllow = "skill_dirs" // the folders of known skills
	GuardAllowRoots     GuardAllow = "roots"      // the discovered roots
)

// Layout is the layout of a harness folder.
type Layout string

// The values of Layout, narrowest first.
const (
	LayoutV1   Layout = "v1"   // the folders skills and references, with SKILLS.md and REFERENCES.md
	LayoutV2   Layout = "v2"   // any folders, with leaf files and leaf detectors
	LayoutAuto Layout = "auto" // v2 if the folder looks like v2, otherwise v1
)

// GroupSummary says what a group without its summary file is.
type GroupSummary string

// The values of GroupSummary, narrowest first.
const (
	GroupSummaryError GroupSummary = "error" // as an error
	GroupSummaryWarn  GroupSummary = "warn"  // as a warning
)

// Inherit says which active skills a child run begins with.
type Inherit string

// The values of Inherit, narrowest first.
const (
	InheritNone   Inherit = "none"   // none, even if the call lists some
	InheritListed Inherit = "listed" // those listed in the subagent's profile or in the call
	InheritAll    Inherit = "all"    // all of them
)

// UnknownSlash says what becomes of a typed /name that is no command and no skill.
type UnknownSlash string

// The values of UnknownSlash, narrowest first.
const (
	UnknownSlashError  UnknownSlash = "error"  // an error that lists the available skills
	UnknownSlashNotice UnknownSlash = "notice" // a notice; nothing is sent to the model, and a run ends in the same way as with the value error
	UnknownSlashPass   UnknownSlash = "pass"   // it is sent to the model as text
)

// InstallFrom is where a skill may be installed from.
type InstallFrom string

// The values of InstallFrom, narrowest first.
const (
	InstallFromLocal    InstallFrom = "local"    // a local folder
	InstallFromZip      InstallFrom = "zip"      // an archive
	InstallFromRegistry InstallFrom = "registry" // a registry, with pinned versions
)

// InstallSources says from which places on other machines skills may be installed.
type InstallSources string

// The values of InstallSources, narrowest first.
const (
	InstallSourcesListed InstallSources = "listed" // only sources that a policy file lists
	InstallSourcesAny    InstallSources = "any"    // all sources
)

// InstallSignature says whether a skill must be signed to be installed.
type InstallSignature string

// The values of InstallSignature, narrowest first.
const (
	InstallSignatureRequired InstallSignature = "required" // by a signer that a policy file names, unless a policy file approves the skill
	InstallSignatureOptional InstallSignature = "optional" // a bad signature and a changed signer still prevent the installation
)

// InstallRoot says in which skills folder skills are installed.
type InstallRoot string

// The values of InstallRoot.
const (
	InstallRootAgents InstallRoot = "agents"  // .agents/skills
	InstallRootKeepUp InstallRoot = "keep_up" // .keep-up/skills
)

// ArchiveLayout says how an archive must be laid out.
type ArchiveLayout string

// The values of ArchiveLayout, narrowest first.
const (
	ArchiveLayoutWrapper ArchiveLayout = "wrapper" // one folder that contains SKILL.md
	ArchiveLayoutEither  ArchiveLayout = "either"  // one folder, or SKILL.md at the top
)

// InstallValidation says how strictly SKILL.md is judged before it is installed.
type InstallValidation string

// The values of InstallValidation, narrowest first.
const (
	InstallValidationStrict  InstallValidation = "strict"  // an error prevents the installation
	InstallValidationLenient InstallValidation = "lenient" // it is installed with warnings
	InstallValidationMinimal InstallValidation = "minimal" // only name and description are checked
)

// The kinds that Names.Precedence lists.
const (
	KindRoots      = "roots" // the order in which the roots are listed
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

// ToolLoadContent loads anything of a harness of layout v2. It is granted where ToolLoadSkill is, and a harness is there.
const ToolLoadContent = "load_content"

// The canonical names of the tools that run programs. No default set has them.
const (
	ToolRunSkillScript = "run_skill_script"
	ToolBash           = "bash"
)

// The canonical names of the tools by which a model begins subagents, and reads their reports.
const (
	ToolDelegateTask   = "delegate_task"
	ToolDescribeHandle = "describe_handle"
)

// ToolWebFetch reads a page of the network. No default set has it.
const ToolWebFetch = "web_fetch"

// Publish says whether skills may be published.
type Publish string

// The values of Publish, narrowest first.
const (
	PublishNo  Publish = "no"  // no
	PublishYes Publish = "yes" // yes
)
