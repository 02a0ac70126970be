package settings

// Root is a kind of root that is searched without being named on the command line.
type Root string

// The values of Root, narrowest first.
const (
	RootBuiltin Root = "builtin"      // the skills that come with metier
	RootOrg     Root = "auto:org"     // the skills for the whole machine, in /etc/metier/skills
	RootProject Root = "auto:project" // the skill folders in the workspace
	RootHome    Root = "auto:home"    // the skill folders in the home directory
	RootEnv     Root = "env"          // the folders listed in AGENT_SKILLS_DIRS
	RootDB      Root = "db"           // skills stored per project; the store is not implemented yet
	RootHarness Root = "harness"      // the workspace, if it is a harness (a folder with HARNESS.md)
)

// Family is an agent whose skill folders auto:project, auto:home and env search.
// Its values are the names in internal/agentdirs.
type Family string

// Ancestors says whether auto:project means the folders above the workspace too.
type Ancestors string

// The values of Ancestors, narrowest first.
const (
	AncestorsNo  Ancestors = "no"  // only the workspace's own skill folders
	AncestorsYes Ancestors = "yes" // also the skill folders in the folders above the workspace, up to the one with .git, except the home directory and folders that other users can write to
)

// RootScope says where a root may lie.
type RootScope string

// The values of RootScope, narrowest first.
const (
	RootScopeWorkspace   RootScope = "workspace"   // inside the workspace, or in a declared mount
	RootScopeAllowlisted RootScope = "allowlisted" // also in a folder that the operator listed
	RootScopeAnywhere    RootScope = "anywhere"    // in any folder that the operator specifies
)

// Scan says how deep a root is searched for skills.
type Scan string

// The values of Scan, narrowest first.
const (
	ScanChildren  Scan = "children"  // the root or its direct subfolders
	ScanRecursive Scan = "recursive" // any depth, up to the limits
	ScanGrouped   Scan = "grouped"   // any depth; in a harness, groups and documents are also entries
)

// Nested says whether the folder of a skill is searched for more skills.
type Nested string

// The values of Nested, narrowest first.
const (
	NestedNo  Nested = "no"  // all files in the folder belong to the skill
	NestedYes Nested = "yes" // a skill inside it is separate, but its files also belong to the outer skill
)

// FileNames says which file names make an entry.
type FileNames string

// The values of FileNames, narrowest first.
const (
	FileNamesExact   FileNames = "exact"     // SKILL.md
	FileNamesLower   FileNames = "lower_too" // SKILL.md or, if it is missing, skill.md
	FileNamesHarness FileNames = "harness"   // SKILL.md; in a harness, also HARNESS.md and the group summaries
)

// Symlinks says what becomes of symbolic links. One that leaves its root is never followed.
type Symlinks string

// The values of Symlinks, narrowest first.
const (
	SymlinksIgnore   Symlinks = "ignore"    // links are not followed
	SymlinksInBounds Symlinks = "in_bounds" // links that point inside these bounds are resolved once, and their targets are opened
)

// Reload says when the snapshot is built again.
type Reload string

// The values of Reload, narrowest first.
const (
	ReloadSnapshot Reload = "snapshot" // never; the list is built once, at the start
	ReloadAuto     Reload = "auto"     // same as per_turn in a conversation, and same as snapshot in a batch run
	ReloadPerTurn  Reload = "per_turn" // before each turn
	ReloadTagged   Reload = "tagged"   // when the store changes; same as per_turn until the store is implemented
	ReloadWatch    Reload = "watch"    // when a file changes; same as per_turn until file watching is implemented
	ReloadPerCall  Reload = "per_call" // each time the skills are requested (in a run, once per turn)
)

// ResourceIndex says when the files of a skill are indexed and hashed.
type ResourceIndex string

// The values of ResourceIndex, narrowest first.
const (
	ResourceIndexStart      ResourceIndex = "start"      // when the list of skills is built
	ResourceIndexActivation ResourceIndex = "activation" // when the skill is first used
)

// StateStore says where it is kept which skills a person switched off.
type StateStore string

// The values of StateStore, narrowest first. Each adds to what switches off, so only a move that loses nothing narrows.
const (
	StateStoreProject StateStore = "project_file" // in the workspace's .metier/skills.json, which can only disable skills; user_file also applies
	StateStoreUser    StateStore = "user_file"    // in metier's state folder, by skill
	StateStoreKeen    StateStore = "keen_file"    // in ~/.keen/skills/config.json, by name
	StateStoreNone    StateStore = "none"         // nowhere
)

// PlatformFilter says what becomes of a skill that names operating systems, and not this one.
type PlatformFilter string

// The values of PlatformFilter, narrowest first.
const (
	PlatformFilterRefuse PlatformFilter = "refuse" // it is refused
	PlatformFilterHide   PlatformFilter = "hide"   // it is not shown to the model; it can still be loaded by name
	PlatformFilterOff    PlatformFilter = "off"    // it is loaded
)

// Validation says how strictly SKILL.md is judged on load.
type Validation string

// The values of Validation, narrowest first.
const (
	ValidationStrict  Validation = "strict"  // a skill with an error, or with frontmatter that needs repair, is rejected
	ValidationLenient Validation = "lenient" // the skill is loaded with warnings
	ValidationMinimal Validation = "minimal" // only name and description are checked
)

// NameCharset says which letters a name may have.
type NameCharset string

// The values of NameCharset, narrowest first.
const (
	NameCharsetASCII   NameCharset = "ascii"   // lowercase ASCII letters, digits, and hyphens
	NameCharsetUnicode NameCharset = "unicode" // lowercase letters from any script, digits, and hyphens
	NameCharsetAny     NameCharset = "any"     // any characters on one line
)

// MissingName says what becomes of a skill without a name.
type MissingName string

// The values of MissingName, narrowest first.
const (
	MissingNameReject MissingName = "reject" // it is refused
	MissingNameFolder MissingName = "folder" // the name of its folder is used
)

// MissingDescription says what becomes of a skill without a description.
type MissingDescription string

// The values of MissingDescription, narrowest first.
const (
	MissingDescriptionReject    MissingDescription = "reject"          // it is refused
	MissingDescriptionSkip      MissingDescription = "skip"            // it is skipped, with a diagnostic
	MissingDescriptionFolder    MissingDescription = "folder"          // the name of its folder is used
	MissingDescriptionParagraph MissingDescription = "first_paragraph" // the first paragraph of the body is used; a skill whose body has no paragraph is skipped
)

// NoFrontmatter says what becomes of a SKILL.md without frontmatter.
type NoFrontmatter string

// The values of NoFrontmatter, narrowest first.
const (
	NoFrontmatterReject NoFrontmatter = "reject" // it is refused
	NoFrontmatterFollow NoFrontmatter = "follow" // the rules for a missing name and a missing description apply
	NoFrontmatterPlain  NoFrontmatter = "plain"  // it is loaded as a plain Markdown skill, named after its folder
)

// UnknownFields says what becomes of fields the specification does not name.
type UnknownFields string

// The values of UnknownFields, narrowest first.
const (
	UnknownFieldsReject UnknownFields = "reject" // they are errors
	UnknownFieldsIgnore UnknownFields = "ignore" // they are dropped
	UnknownFieldsKeep   UnknownFields = "keep"   // they are kept and shown, but have no effect
)

// YAMLReport says in what words a frontmatter that is no YAML is reported. Such a skill is never loaded.
type YAMLReport string

// The values of YAMLReport, narrowest first: least told first.
const (
	YAMLReportUser       YAMLReport = "user_message" // one sentence that names the skill
	YAMLReportDiagnostic YAMLReport = "diagnostic"   // the cause, with line and column
	YAMLReportBoth       YAMLReport = "both"         // the sentence, then the cause
)

// KnownExtensions says which fields beyond the specification are known, so that UnknownFields does not touch them.
type KnownExtensions string

// The values of KnownExtensions, narrowest first.
const (
	KnownExtensionsNone   KnownExtensions = "none"   // none
	KnownExtensionsClaude KnownExtensions = "claude" // Claude Code's fields, such as disable-model-invocation
)

// Identity says what a skill is called.
type Identity string

// The values of Identity. Each names skills in another way, so below the operator only a move to equal narrows.
const (
	IdentityEqual  Identity = "equal"  // the frontmatter name, which must equal the folder name
	IdentityPath   Identity = "path"   // the skill's path relative to its root
	IdentityName   Identity = "name"   // the frontmatter name
	IdentityFolder Identity = "folder" // the folder's name
)

// Match says how a name asked for is compared.
type Match string

// The values of Match, narrowest first.
const (
	MatchExact    Match = "exact"    // byte by byte
	MatchNFKC     Match = "nfkc"     // after Unicode normalization form KC
	MatchCasefold Match = "casefold" // trimmed, normalized, and case-folded
)

// Protect says whether a skill of a lower tier may take the name of one of a higher tier.
type Protect string

// The values of Protect, narrowest first.
const (
	ProtectYes Protect = "yes" // names are protected, regardless of precedence
	ProtectNo  Protect = "no"  // names are not protected; only precedence matters
)

// CatalogFormat is the form of the catalog.
type CatalogFormat string

// The values of CatalogFormat, narrowest first.
const (
	CatalogFormatNone     CatalogFormat = "none"           // no catalog
	CatalogFormatMarkdown CatalogFormat = "markdown"       // a Markdown list
	CatalogFormatJSON     CatalogFormat = "json"           // a JSON object
	CatalogFormatXML      CatalogFormat = "xml"            // an available_skills element
	CatalogFormatPaths    CatalogFormat = "markdown_paths" // a Markdown list with the path of each SKILL.md
)

// CatalogPlace is where the catalog stands.
type CatalogPlace string

// The values of CatalogPlace, narrowest first.
const (
	CatalogPlaceNone   CatalogPlace = "none"   // nowhere
	CatalogPlaceTool   CatalogPlace = "tool"   // in the load tool's description
	CatalogPlaceSystem CatalogPlace = "system" // in the system prompt
)

// EmptyCatalog says what the model is told when there is no skill.
type EmptyCatalog string

// The values of EmptyCatalog, narrowest first.
const (
	EmptyCatalogSilent  EmptyCatalog = "silent"   // nothing
	EmptyCatalogSayNone EmptyCatalog = "say_none" // one sentence that says so
)

// Paths says which paths of skills the model sees.
type Paths string

// The values of Paths, narrowest first.
const (
	PathsNone    Paths = "none"    // no paths; skills are listed by skillId, and calls use the skillId instead of the name
	PathsSkill   Paths = "skill"   // relative to the skill or harness
	PathsRepo    Paths = "repo"    // relative to the repository
	PathsSandbox Paths = "sandbox" // /skills/NAME/...
	PathsAuto    Paths = "auto"    // same as sandbox; no host path is needed, because file tools map the paths shown to the model
	PathsHost    Paths = "host"    // host paths
)
