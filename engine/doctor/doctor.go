// Package doctor checks the host setup: configuration, folders, skills, models, and the sandbox.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/mcp/host"
	"metier/run"
	"metier/source/local"
)

// The states of a check.
const (
	OK      = "ok"
	Note    = "note"
	Problem = "problem"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, note, problem
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // how to fix it
	Err    error  `json:"-"`              // of a problem; replaces Detail and Hint
}

// Options configure the checks. The zero value is ready to use.
type Options struct {
	Workspace    string   // "": the folder of the environment
	Roots        []string // skill folders; nil: the configured ones
	ClearIndex   bool     // clear the skill index first
	ClearServers bool     // clear the cache of server skills first
}

// Run checks what a run started now would use. It makes no network connections except to a local
// Ollama.
func Run(ctx context.Context, e *engine.Engine, o Options) []Check {
	d := &doctor{e: e}
	d.configuration()
	d.folders(ctx, o.Workspace)
	d.index(o.ClearIndex)
	d.servers(o.ClearServers)
	d.skills(ctx, o.Roots)
	d.models(ctx)
	d.sandbox(ctx)
	return d.checks
}

// doctor collects checks.
type doctor struct {
	e      *engine.Engine
	op     config.Operator
	ws     string
	checks []Check
}

func (d *doctor) ok(name, format string, args ...any) {
	d.checks = append(d.checks, Check{Name: name, State: OK, Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) note(name, hint, format string, args ...any) {
	d.checks = append(d.checks, Check{Name: name, State: Note, Detail: fmt.Sprintf(format, args...), Hint: hint})
}

func (d *doctor) bad(name string, err error) {
	d.checks = append(d.checks, Check{Name: name, State: Problem, Err: err})
}

// sandbox checks the script sandbox. Without one, skills still work, so a missing sandbox is only a
// note.
func (d *doctor) sandbox(ctx context.Context) {
	name, err := engine.Backend("", d.op)
	if err != nil {
		d.bad("sandbox", err)
		return
	}
	p, err := d.e.Probe(ctx, name, d.op)
	switch {
	case err != nil:
		d.bad("sandbox", err)
	case !p.Available:
		m := p.Missing[0]
		d.note("sandbox", m.Fix, "%s cannot run scripts here: %s: %s", name, m.Primitive, termtext.Line(m.Detail))
	default:
		d.ok("sandbox", "%s runs scripts at %s%s", name, p.Level, map[bool]string{true: "; " + strings.Join(p.Notes, ", ")}[len(p.Notes) > 0])
	}
}

// configuration checks the operator's configuration.
func (d *doctor) configuration() {
	for _, p := range d.e.Env.Files() {
		found, err := config.Check(d.e.Env, p)
		switch {
		case err != nil:
			d.bad("config", err)
		case found:
			d.ok("config", "%s is read", p)
		default:
			d.ok("config", "%s: not found (optional)", p)
		}
	}
	d.op, _ = config.Load(d.e.Env) // errors are reported above
	if d.e.Env.Home() == "" {
		d.note("home", "set HOME", "there is no home folder: no user configuration, no skills of the user")
	}
	state := d.e.Env.StateDir()
	if state == "" {
		d.note("anchors", "set HOME or XDG_STATE_HOME", "there is no home folder in which to store heads of records, so a truncated or rewritten record would not be detected")
		return
	}
	if err := writable(state); err != nil {
		d.bad("anchors", run.StateUnwritable(state, err))
		return
	}
	d.ok("anchors", "heads of records are kept in %s", filepath.Join(state, "heads"))
}

// writable checks that files can be created in dir, or in its closest existing parent. It leaves no
// files behind.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return err
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".metier-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// folders checks the workspace and its records.
func (d *doctor) folders(ctx context.Context, workspace string) {
	ws, err := d.e.Enter(ctx, workspace)
	if err != nil {
		d.bad("workspace", err)
		return
	}
	d.ws = ws
	if err := writable(ws); err != nil {
		d.note("workspace", "agents can read here, not write", "%s cannot be written to: %v", ws, err)
	} else {
		d.ok("workspace", "%s", ws)
	}
	root, err := d.e.RunsRoot("", d.op, ws)
	if err != nil {
		d.bad("records", err)
		return
	}
	if err := writable(root); err != nil {
		d.bad("records", &metier.Error{Op: "records", Path: root, Kind: metier.Unavailable, Code: "read_only", Hint: "choose another folder with Request.Artifacts or artifact_root", Err: err})
		return
	}
	list, err := run.List(context.Background(), root, d.e.RunOptions())
	if err != nil {
		d.bad("records", err)
		return
	}
	count, unfinished := map[string]int{}, []string{run.StatusInterrupted, run.StatusWaiting, run.StatusAnswered}
	for _, s := range list {
		if s.Problem != "" {
			count["with a problem"]++
		}
		if slices.Contains(unfinished, s.Status) {
			count[s.Status]++
		}
	}
	text := fmt.Sprintf("%s in %s", plural.Of(len(list), "run"), root)
	for _, k := range append(unfinished, "with a problem") {
		if count[k] > 0 {
			text += fmt.Sprintf(", %d %s", count[k], k)
		}
	}
	if len(count) > 0 {
		d.note("records", "see 'metier runs list'", "%s", text)
		return
	}
	d.ok("records", "%s", text)
}

// index checks the folder of the index on disk. If clear is set, it empties the folder first.
func (d *doctor) index(clear bool) {
	dir, why := d.e.Env.IndexDir()
	if dir == "" {
		d.ok("index", "no index: every listing reads all skill headers: %s", why)
		return
	}
	if clear {
		n, err := local.Clear(dir)
		if err != nil {
			d.bad("index", notCleared(dir, err))
			return
		}
		d.ok("index", "%s removed from %s", plural.Of(n, "file"), dir)
	}
	files, size := 0, int64(0)
	list, _ := os.ReadDir(dir) // an unreadable folder is not writable either
	for _, e := range list {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".idx" {
			files, size = files+1, size+info.Size()
		}
	}
	if err := writable(dir); err != nil {
		d.note("index", "make it writable, or specify another folder with METIER_INDEX", "the index cannot be written, so every listing reads all skills: %v", err)
		return
	}
	d.ok("index", "%s of %d kB in %s", plural.Of(files, "file"), (size+999)/1000, dir)
}

// servers checks the cache of server skills. If clear is set, it removes the cache first.
func (d *doctor) servers(clear bool) {
	dir, why := d.e.Env.CacheDir(engine.CacheServers)
	if dir == "" {
		d.ok("mcp cache", "no cache: files of servers' skills are fetched each time: %s", why)
		return
	}
	if clear {
		if err := os.RemoveAll(dir); err != nil {
			d.bad("mcp cache", notCleared(dir, err))
			return
		}
	}
	files, size := host.Cached(dir)
	d.ok("mcp cache", "%s of %d kB in %s", plural.Of(files, "file"), (size+999)/1000, dir)
}

func notCleared(dir string, err error) error {
	return &metier.Error{Op: "clear", Path: dir, Kind: metier.Unavailable, Code: "read_only", Hint: "remove the folder yourself", Err: err}
}
