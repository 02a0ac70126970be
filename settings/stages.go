package settings

import (
	"maps"
	"slices"
)

// Settings holds one struct per stage. Only wiring sees all of it; a stage takes its own part.
type Settings struct {
	Discover Discover
	Parse    Parse
	Names    Names
	Catalog  Catalog
	Activate Activate
	Read     Read
	Tools    Tools
	Exec     Exec
	Policy   Policy
	Harness  Harness
	Agent    Agent
	Chat     Chat
	Install  Install

	// Operator holds the stages by which skills are found and read as the operator set them. They apply to all roots
	// except the workspace's own. Otherwise, a workspace could free the names of other skills by narrowing a stage.
	Operator Operator
}

// Operator is the part of the settings that a workspace narrows for its own roots only.
type Operator struct {
	Discover Discover
	Parse    Parse
}

// OperatorValues returns the operator's values that the workspace narrowed, by name.
func (s Settings) OperatorValues() map[string]string {
	values := map[string]string{}
	for _, c := range Diff(s.AsOperator(), s) {
		values[c.Name] = c.A
	}
	return values
}

// Recorded returns layers that resolve to recorded values again: all of them, and the operator's where a workspace
// narrowed them.
func Recorded(values, operator map[string]string) []Layer {
	base, narrowed := maps.Clone(values), map[string]string{}
	for name, v := range operator {
		base[name], narrowed[name] = v, values[name]
	}
	return []Layer{{Name: "record", Operator: true, Values: base}, {Name: "record", Values: narrowed}}
}

// AsOperator returns s without what a workspace narrowed in how skills are found and read.
func (s Settings) AsOperator() Settings {
	s.Discover, s.Parse = s.Operator.Discover, s.Operator.Parse
	return s
}

// Discover says which roots are searched, how deep, and when.
type Discover struct {
	Roots         Set[Root]   // roots found without being told; explicit roots come from the operator
	Families      Set[Family] // whose folders auto:project, auto:home and env mean
	Ancestors     Ancestors
	RootScope     RootScope
	Scan          Scan
	Nested        Nested
	FileNames     FileNames
	Symlinks      Symlinks
	Reload        Reload
	ResourceIndex ResourceIndex
	StateStore    StateStore
	MaxDepth      int // folders below a root
	MaxDirs       int // folders opened in one scan of one root
	MaxResources  int // files indexed for one skill
}

// InSkills reports whether the folder of a skill is searched for more skills.
func (d Discover) InSkills() bool { return d.Nested == NestedYes }

// Parse says what becomes of a SKILL.md that is not what the specification asks for.
type Parse struct {
	Validation         Validation
	NameCharset        NameCharset
	MissingName        MissingName
	MissingDescription MissingDescription
	NoFrontmatter      NoFrontmatter
	UnknownFields      UnknownFields
	KnownExtensions    KnownExtensions
	YAMLReport         YAMLReport
	CompatibilityMax   int // characters
	PlatformFilter     PlatformFilter
}

// Names says which names a skill answers to and who wins when two claim one.
type Names struct {
	Identity   Identity
	Match      Match
	Precedence []string // the Kind constants, winner first; a kind that is not listed comes last, in the order of the roots
	Protect    Protect
}

// Catalog determines what the model sees of the available skills.
type Catalog struct {
	Format  CatalogFormat
	Place   CatalogPlace
	Empty   EmptyCatalog
	Max     int // skills; 0: all
	DescMax int // characters of one description; 0: the specification's limit
	Budget  int // tokens of the whole catalog, as estimated; 0: any number
	Paths   Paths
}

// Activate says how instructions enter a session and in which form.
type Activate struct {
	Ways             Set[Way]
	Content          Content
	Role             InjectRole
	Args             Args
	DriftBatch       Drift
	DriftInteractive Drift
	Injection        Injection
	ResourceList     int // resources listed beside the instructions; 0: none
	ShowDigest       ShowDigest
}

// OnDrift returns what a batch run, or a conversation, does if an active skill has changed.
func (a Activate) OnDrift(batch bool) Drift {
	if batch {
		return a.DriftBatch
	}
	return a.DriftInteractive
}

// Read says which files of a skill can be read and how much of one.
type Read struct {
	Scope     ResourceScope
	Late      LateFiles
	IndexRoot IndexRootFile
	Binary    Binary
	Max       int // bytes one read may ask for
	Default   int // bytes when the read asks for no number; never above Max
	Over      ReadOver
}

// Tools says what the skill tools are called and which tools a run has without being told. A tool whose name is ""
// does not exist, also where Default lists it.
type Tools struct {
	Load     string
	Resource string
	Script   string
	List     string
	Search   string
	Reply    Reply
	Default  []string // canonical names (the Tool constants), in the order of the table
	IfMatch  IfMatch
}

// Canonical returns the canonical name of the skill tool that has this name, or the name itself.
func (t Tools) Canonical(name string) string {
	for _, tool := range [][2]string{{t.Load, ToolLoadSkill}, {t.Resource, ToolReadSkillResource}, {t.Search, ToolSearchSkills}, {t.List, ToolListSkills}, {t.Script, ToolRunSkillScript}} {
		if name == tool[0] && name != "" {
			return tool[1]
		}
	}
	return name
}

// Exec says which scripts run and how.
type Exec struct {
	Scripts           Scripts
	Approval          Approval
	Runtimes          Set[Runtime]
	Stage             Stage
	Cwd               Cwd
	Network           Network
	HostCDP           HostCDP
	MissingDependency MissingDependency
	Target            Target
}

// Policy says how calls are judged.
type Policy struct {
	AllowedTools AllowedTools
	Merge        Merge
	Mode         Mode
	SlotRole     SlotRole
	GuardAllow   GuardAllow
}

// Harness says how a folder with HARNESS.md is understood.
type Harness struct {
	Layout       Layout
	GroupSummary GroupSummary
}

// Agent says what child runs get.
type Agent struct {
	Inherit Inherit
}

// Chat says how typed lines are understood.
type Chat struct {
	UnknownSlash UnknownSlash
}

// Install says where skills may be installed from, what is asked of them, and whether they may be published.
type Install struct {
	Allowed       Set[InstallFrom]
	Sources       InstallSources
	Signature     InstallSignature
	Root          InstallRoot
	ArchiveLayout ArchiveLayout
	Validation    InstallValidation
	Publish       Publish
}

// Set is a set of the values of one setting, in the order of its table row.
type Set[T ~string] []T

// Has reports whether v is in the set.
func (s Set[T]) Has(v T) bool { return slices.Contains(s, v) }

// ByReading reports whether reading a whole local SKILL.md activates it.
func (a Activate) ByReading() bool { return a.Ways.Has(WayReadFile) }

// ByLoadTool reports whether the model may load skills by a tool.
func (a Activate) ByLoadTool() bool { return a.Ways.Has(WayLoadTool) }

// AtStart reports whether a harness that nobody named is loaded with the
// session.
func (a Activate) AtStart() bool { return a.Ways.Has(WaySessionStart) }

// FollowsLinks reports whether links that stay in their bounds are followed.
func (d Discover) FollowsLinks() bool { return d.Symlinks == SymlinksInBounds }

// InSystem reports whether loaded skills stand in the system prompt instead of
// in a message.
func (r InjectRole) InSystem() bool { return r == InjectRoleSystem }

// OnlyIndexed reports whether files outside the index are refused or marked.
func (r Read) OnlyIndexed() bool { return r.Scope == ResourceScopeIndexed }

// NoScripts reports whether no script of any skill may run.
func (e Exec) NoScripts() bool { return e.Scripts == ScriptsOff }

// AnyFile reports whether scripts may run that lie elsewhere than below
// scripts/, and of skills that are not active.
func (e Exec) AnyFile() bool { return e.Scripts == ScriptsBundled }

// NoScripts reports whether there is no way to run a script of a skill.
func (s Settings) NoScripts() bool { return s.Exec.NoScripts() || s.Tools.Script == "" }

// Exact is e with exactly the scripts that are named and, of the network, no
// more than named hosts; hosts says whether there are any, and open whether
// every host stays reachable where e has that.
func (e Exec) Exact(hosts, open bool) Exec {
	if e.Scripts != ScriptsOff {
		e.Scripts = ScriptsExact
	}
	switch {
	case e.Network == NetworkOn && open:
	case !hosts:
		e.Network = NetworkOff
	case e.Network == NetworkOn:
		e.Network = NetworkTiered
	}
	return e
}
