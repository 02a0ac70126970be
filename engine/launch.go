package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"metier"
	"metier/agent"
	"metier/browser"
	"metier/config"
	"metier/event"
	"metier/filetool"
	"metier/harness"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/skillroots"
)

// Launch is everything a run was started with. It is recorded, and a resume uses it instead of the
// current flags and files.
type Launch struct {
	Workspace  string                  `json:"workspace"`
	Cwd        string                  `json:"cwd,omitempty"`
	Mounts     []filetool.Mount        `json:"mounts,omitempty"`
	Roots      []skillroots.Root       `json:"roots"`
	Settings   map[string]string       `json:"settings"`
	Operator   map[string]string       `json:"operator,omitempty"` // [settings.Settings.OperatorValues]
	Skills     []string                `json:"skills,omitempty"`   // preloaded, in order
	Tools      []string                `json:"tools"`              // granted, canonical
	Denied     []string                `json:"denied,omitempty"`
	Scripts    []string                `json:"scripts,omitempty"` // allowed, SKILL:scripts/PATH
	Named      []string                `json:"named,omitempty"`   // those of them that a flag named, which approves them as they are
	Approved   []policy.ApprovedScript `json:"approved,omitempty"`
	Hosts      []string                `json:"hosts,omitempty"`
	Policy     *LaunchPolicy           `json:"policy,omitempty"`
	Sandbox    string                  `json:"sandbox,omitempty"`
	Browser    *browser.Lease          `json:"browser,omitempty"` // lent to subagents
	Prompt     string                  `json:"prompt"`
	PromptRole policy.Role             `json:"promptRole"`
	Batch      bool                    `json:"batch"`
	Park       bool                    `json:"park"`
	Confined   bool                    `json:"confined,omitempty"` // no question lets it read outside of the workspace
	Model      string                  `json:"model"`              // provider:name, or scripted:/absolute/path
	Spec       agent.Spec              `json:"spec"`
	Artifacts  string                  `json:"artifacts"`
	Phase      string                  `json:"phase,omitempty"`
	Later      []string                `json:"laterPhases,omitempty"`
	MCP        *LaunchMCP              `json:"mcp,omitempty"`
	Subagents  *LaunchSubagents        `json:"subagents,omitempty"`
	Child      *LaunchChild            `json:"child,omitempty"`   // where the run is one
	Sources    []string                `json:"sources,omitempty"` // run file and recorded turns: tools cannot write to them
	Closed     []string                `json:"closed,omitempty"`  // files with secrets: no tool reads them

	resumed        bool // its record is there: what that says of the task counts
	browserRenewed bool // Browser is not the one of the record

	brought []string // folders of skills that the program brings
}

// own returns the launch of one run of a plan. Opening the run does not change the plan, so that a
// plan can be started many times and concurrently.
func (l Launch) own() Launch {
	l.Tools, l.Scripts, l.Approved = slices.Clip(l.Tools), slices.Clip(l.Scripts), slices.Clip(l.Approved)
	if l.MCP != nil {
		m := *l.MCP
		l.MCP = &m
	}
	return l
}

// folders returns the folders of the file-based sources that a program supplies.
func (c Custom) folders() (out []string) {
	for _, m := range c.Mounts {
		dir := m.Root
		if s, is := m.Source.(interface{ Root() string }); is {
			dir = cmp.Or(dir, s.Root())
		}
		if filepath.IsAbs(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// protected returns the files that no tool may write, because the next run would obey them: roots
// of skills, skills linked into them, the configuration and the files it names, the list of
// disabled skills, programs that run outside of the sandbox, the files in which MCP clients find
// such programs, and the files the run itself was started with. skills of several runs share what
// they list.
func (e *Engine) protected(l Launch, op config.Operator, s settings.Discover, skills *Skills) (p protection) {
	out := append([]string{filepath.Join(l.Workspace, "metier.yaml")}, e.Env.Files()...)
	out = slices.Concat(out, l.Sources, e.sources(l.Workspace), op.Policies, op.MCPFiles, op.Subagents.Profiles, op.Browser.Path, op.Sandbox.Visible, ownPrograms(op))
	folders := e.skillFolders(l.Workspace, l.Cwd)
	for _, c := range op.Skills {
		out, folders = append(out, c.Path), append(folders, c.Path)
	}
	for _, f := range e.Env.Files() {
		out = append(out, filepath.Join(filepath.Dir(f), config.SubagentsDir))
	}
	for _, f := range e.State().All(l.Workspace) {
		out = append(out, f.Path)
	}
	if f := e.State().ApprovalFile(); f != "" {
		out = append(out, f)
	}
	for _, r := range l.Roots {
		if r.Path != "" {
			out, folders = append(out, r.Path), append(folders, r.Path)
		}
	}
	out, folders = append(out, l.brought...), append(folders, l.brought...)
	slices.Sort(folders)
	var real confine.Paths
	for _, dir := range slices.Compact(folders) {
		_, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // most agents are not installed
		}
		inside := real.Within(l.Workspace, dir)
		if err == nil && inside {
			out = append(out, dir) // also where a link leads from elsewhere
		}
		linked, whole := skills.linked(l.Workspace, dir, inside, s.InSkills(), s.MaxDirs)
		out = append(out, linked...)
		p.partial = p.partial || !whole
	}
	user := userGitConfig(e.Env)
	var mounted []string // folders elsewhere that tools can write
	for _, m := range l.Mounts {
		if m.Mode == "rw" && !real.Within(l.Workspace, m.Source) {
			mounted = append(mounted, m.Source)
		}
	}
	for _, dir := range slices.Concat(e.projectDirs(l.Workspace, l.Cwd), mounted) {
		paths, partial := repositories(dir, user)
		out = append(append(out, filepath.Join(dir, harness.File)), paths...)
		for _, f := range agentdirs.Starting() {
			out = append(out, filepath.Join(dir, filepath.FromSlash(f)))
		}
		p.partial = p.partial || partial
	}
	nested := func(folder string) []string {
		dirs, whole := e.repos.find(folder, s.MaxDirs)
		for _, dir := range dirs {
			paths, unread := nestedRepository(filepath.Join(folder, filepath.FromSlash(dir)), user)
			out, whole = append(out, paths...), whole && !unread
		}
		p.unsearched = p.unsearched || !whole
		return dirs
	}
	if l.changes() {
		p.hooks = user.relativeHooks()
		p.repositories = nested(l.Workspace)
		for _, dir := range mounted {
			nested(dir)
		}
	}
	p.paths = out
	return p
}

// protection lists the files that no tool and no program writes.
type protection struct {
	paths   []string
	partial bool // there are more, so programs cannot write to the workspace at all

	repositories []string // below the workspace, as slash paths, without those that programs created
	unsearched   bool     // there may be more
	hooks        []string // folders in which the user's git looks for hooks, below each working tree
}

// ownPrograms returns the programs that run outside of the sandbox: that of this process, the one
// that comes with metier beside it, and gVisor's.
func ownPrograms(op config.Operator) (out []string) {
	if exe, err := os.Executable(); err == nil {
		out = append(out, exe, filepath.Join(filepath.Dir(exe), "pagehand"))
	}
	if called, err := exec.LookPath(os.Args[0]); err == nil { // it may be a link, or behind one
		if abs, err := filepath.Abs(called); err == nil {
			out = append(out, abs)
		}
	}
	if op.Sandbox.Runsc != "" {
		out = append(out, op.Sandbox.Runsc)
	}
	return out
}

// closed returns the paths that no tool may read or write: the records of this and of earlier runs,
// their recorded heads, the index of 'metier list', and files with secrets. A folder that contains
// the workspace cannot be closed. The records in it are outside the workspace.
func (e *Engine) closed(l Launch, secrets []config.Secret) (out []string) {
	var real confine.Paths
	paths := slices.Sorted(maps.Values(e.known(knownRecords))) // also those outside of the workspace
	for _, c := range e.closedPaths(l, secrets) {
		paths = append(paths, c.path)
	}
	for _, p := range paths {
		if !real.Within(p, l.Workspace) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// EndRecord records the end of a session that is not a run. stateOnly is set if no artifact except
// run-state.json will be written.
func (e *Engine) EndRecord(ctx context.Context, log record.Log, session string, stateOnly bool) error {
	en, err := event.New(event.SessionEnded{Session: session, StateOnly: stateOnly}, "ended", e.Principal(), e.Now())
	if err != nil {
		return err
	}
	head, err := log.Head(ctx)
	if err == nil {
		_, err = log.Append(ctx, head, en)
	}
	return err
}

// RunsRoot returns the folder of runs: the flag, the configuration, or .metier/runs in the
// workspace. The workspace is untrusted: a link in place of .metier/runs could redirect records to
// those of others, or to where file tools write.
func (e *Engine) RunsRoot(flag string, op config.Operator, workspace string) (string, error) {
	linked := func(dir, why string) error {
		return &metier.Error{Op: "run", Path: dir, Kind: metier.Denied, Code: "artifact_root_linked",
			Field: "Request.Artifacts", Hint: "remove it, or choose a folder for records with Request.Artifacts", Err: fmt.Errorf("%s %s, so records would be elsewhere", dir, why)}
	}
	if p := cmp.Or(flag, op.Artifacts); p != "" {
		dir := e.Env.Path(p)
		if by, _ := e.linkedIn(dir, workspace); by != "" {
			return "", linked(dir, "contains a link")
		}
		return dir, nil
	}
	dir := workspace
	for _, name := range []string{".metier", "runs"} {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return "", linked(dir, "is a link or a file")
		}
	}
	return dir, nil
}
