package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"metier"
	"metier/agent"
	"metier/browser"
	"metier/config"
	"metier/event"
	"metier/harness"
	"metier/internal/confine"
	"metier/model/provider"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/settings"
	"metier/skillroots"
	"metier/tool"
)

// launch is everything a run was started with. It is kept in the record, and a
// resume uses it, not the flags and files of the day.
type launch struct {
	Workspace  string                  `json:"workspace"`
	Cwd        string                  `json:"cwd,omitempty"`
	Mounts     []tool.Mount            `json:"mounts,omitempty"`
	Roots      []skillroots.Root       `json:"roots"`
	Settings   map[string]string       `json:"settings"`
	Skills     []string                `json:"skills,omitempty"` // preloaded, in order
	Tools      []string                `json:"tools"`            // granted, canonical
	Denied     []string                `json:"denied,omitempty"`
	Scripts    []string                `json:"scripts,omitempty"` // allowed, SKILL:scripts/PATH
	Named      []string                `json:"named,omitempty"`   // those of them that a flag named, which approves them as they are
	Approved   []policy.ApprovedScript `json:"approved,omitempty"`
	Hosts      []string                `json:"hosts,omitempty"`
	Policy     *launchPolicy           `json:"policy,omitempty"`
	Sandbox    string                  `json:"sandbox,omitempty"`
	Browser    *browser.Lease          `json:"browser,omitempty"` // lent to subagents
	Prompt     string                  `json:"prompt"`
	PromptRole policy.Role             `json:"promptRole"`
	Batch      bool                    `json:"batch"`
	Park       bool                    `json:"park"`
	Model      string                  `json:"model"` // provider:name, or scripted:/absolute/path
	Spec       agent.Spec              `json:"spec"`
	Artifacts  string                  `json:"artifacts"`
	Phase      string                  `json:"phase,omitempty"`
	MCP        *launchMCP              `json:"mcp,omitempty"`
	Subagents  *launchSubagents        `json:"subagents,omitempty"`
	Child      *launchChild            `json:"child,omitempty"`   // where the run is one
	Sources    []string                `json:"sources,omitempty"` // run file and recorded turns: no tool writes them
	Closed     []string                `json:"closed,omitempty"`  // files with secrets: no tool reads them

	resumed bool // its record is there: what that says of the task counts
	relent  bool // Browser is not the one of the record
}

// protected are the files no tool may write: roots of skills and skills that are linked into folders of skills,
// configuration and the files it names, which skills are switched off, and what the run itself was begun with,
// since the next one would obey it.
func (a *app) protected(l launch, op config.Operator, s settings.Discover) []string {
	out := append([]string{filepath.Join(l.Workspace, "metier.yaml")}, a.env.Files()...)
	out = slices.Concat(out, l.Sources, op.Policies, op.MCPFiles, op.Subagents.Profiles, op.Browser.Path)
	folders := a.skillFolders(l.Workspace, l.Cwd)
	for _, c := range op.Skills {
		out, folders = append(out, c.Path), append(folders, c.Path)
	}
	for _, f := range a.env.Files() {
		out = append(out, filepath.Join(filepath.Dir(f), config.SubagentsDir))
	}
	for _, f := range slices.Concat(a.state().Own(), a.state().Files(s, l.Workspace)) {
		out = append(out, f.Path)
	}
	if f := a.state().ApprovalFile(); f != "" {
		out = append(out, f)
	}
	for _, r := range l.Roots {
		if r.Path != "" {
			out, folders = append(out, r.Path), append(folders, r.Path)
		}
	}
	slices.Sort(folders)
	for _, dir := range slices.Compact(folders) {
		if _, err := os.Lstat(dir); err == nil && confine.Within(l.Workspace, dir) {
			out = append(out, dir) // also where a link leads from elsewhere
		}
		out = append(out, linkedSkills(l.Workspace, dir, s.InSkills(), s.MaxDirs)...)
	}
	for _, dir := range a.projectDirs(l.Workspace, l.Cwd) {
		out = append(append(out, filepath.Join(dir, harness.File)), gitFolders(dir)...)
	}
	return out
}

// closed are the paths that no tool reads or writes: the records, the heads that
// vouch for them, the index that 'metier list' shows skills from, and files with
// secrets. A folder that holds the workspace cannot be closed; the records in it
// lie outside of the workspace.
func (a *app) closed(l launch, secrets []config.Secret) []string {
	var out []string
	index, _ := a.env.IndexDir()
	list := append([]string{l.Artifacts, a.env.StateDir(), index}, l.Closed...)
	for _, s := range secrets {
		list = append(list, s.File)
	}
	for _, p := range list {
		if p != "" && !confine.Within(p, l.Workspace) {
			out = append(out, p)
		}
	}
	return out
}

// stateDir is where heads of records are kept, or "".
func (a *app) stateDir() string {
	return run.StateDir(func(k string) string { return a.env.Get(k) }, a.env.Home())
}

// endRecord says at the end of a record that its session, which is no run, is
// over.
func (a *app) endRecord(ctx context.Context, log record.Log, session string) error {
	en, err := event.New(event.Closed{Session: session}, "ended", a.principal(), a.now())
	if err != nil {
		return err
	}
	head, err := log.Head(ctx)
	if err == nil {
		_, err = log.Append(ctx, head, en)
	}
	return err
}

// principal is who acts: the user's name where there is one.
func (a *app) principal() string {
	return cmp.Or(a.env.Get("METIER_PRINCIPAL"), a.env.Get("USER"), "operator")
}

// secrets are the values that must not reach the record, and so no model: keys
// of providers, and what scripts are given, which a script can put anywhere.
func (a *app) secrets() []record.Secret {
	var out []record.Secret
	for _, p := range provider.All() {
		for _, k := range p.Keys {
			if v := a.env.Get(k); v != "" {
				out = append(out, record.Secret{Name: k, Value: v})
			}
		}
	}
	if op, err := config.Load(a.env); err == nil {
		for _, c := range op.Secrets {
			if v, err := c.Value(a.env); err == nil {
				out = append(out, record.Secret{Name: c.Name, Value: v})
			}
		}
	}
	return append(out, a.mcpSecrets...)
}

// clean takes secrets out of what a model or a provider wrote.
func (a *app) clean(s string) string {
	a.cleaning.Lock()
	defer a.cleaning.Unlock()
	if a.redact == nil {
		a.redact = record.Redact(nil, a.secrets()...)
	}
	b, _ := a.redact.Clean([]byte(s))
	return string(b)
}

// runOptions are the options of every run folder.
func (a *app) runOptions() *run.Options {
	return &run.Options{Now: a.now, By: a.principal(), Logger: a.logger(), StateDir: a.env.StateDir(), Secrets: a.secrets()}
}

// runID is a new id: when it began, and four random bytes.
func (a *app) runID() string {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // the kernel's generator does not fail
	}
	return fmt.Sprintf("%s-%x", a.now().UTC().Format("20060102-150405"), b)
}

// runsRoot is the folder of runs: the flag, the configuration, or .metier/runs
// in the workspace. The workspace is not trusted: a link in the place of the
// latter would take records to where others lie, or file tools write.
func (a *app) runsRoot(flag string, op config.Operator, workspace string) (string, error) {
	if p := cmp.Or(flag, op.Artifacts); p != "" {
		return a.env.Path(p), nil
	}
	dir := workspace
	for _, name := range []string{".metier", "runs"} {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return "", &metier.Error{Op: "run", Path: dir, Kind: metier.Denied, Code: "artifact_root_linked",
				Hint: "remove it, or say where records are with --artifact-root", Err: fmt.Errorf("%s is a link or a file: records stay in the workspace unless you say otherwise", dir)}
		}
	}
	return dir, nil
}

// elapsed words a duration for people.
func elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
