package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/internal/diagcodes"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/mcp/server"
	"metier/model/provider"
	"metier/policy"
	"metier/run"
	"metier/settings"
	"metier/skillroots"
)

// The states of a check.
const (
	checkOK      = "ok"
	checkNote    = "note"
	checkProblem = "problem"
)

// check is one line of the doctor.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, note, problem
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // the way out
}

// doctor collects what this host gives.
type doctor struct {
	a      *app
	op     config.Operator
	ws     string
	checks []check
}

func (d *doctor) ok(name, format string, args ...any) {
	d.checks = append(d.checks, check{name, checkOK, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) note(name, hint, format string, args ...any) {
	d.checks = append(d.checks, check{name, checkNote, fmt.Sprintf(format, args...), hint})
}

func (d *doctor) bad(name string, err error) {
	p := problemOf(err)
	d.checks = append(d.checks, check{name, checkProblem, err.Error() + " [" + p.code + "]", p.hint})
}

func (a *app) doctorCommand() *cobra.Command {
	var workspace string
	var roots []string
	var clear, clearMCP bool
	c := &cobra.Command{Use: "doctor", GroupID: "setup", Short: "Check what this host gives: configuration, skills, models, records",
		Long: `Doctor looks at the program, the configuration, the folders, the skills and the
models a run started here would use, and names the way out of what is wrong. It
asks nobody but an Ollama on this machine. Exit 1: something is a problem.`, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d := &doctor{a: a}
			d.host()
			d.configuration()
			d.folders(c.Context(), workspace)
			d.index(clear)
			d.servers(clearMCP)
			d.skills(c.Context(), roots)
			d.models(c.Context())
			d.sandbox(c.Context())
			return a.showDoctor(d.checks)
		}}
	c.Flags().StringVar(&workspace, "workspace", "", "folder to look at (default: the current one)")
	c.Flags().StringArrayVar(&roots, "skills-root", nil, "folder of skills (repeatable; default: the configuration's)")
	c.Flags().BoolVar(&clear, "clear-index", false, "first remove the index of skills, which is made again")
	c.Flags().BoolVar(&clearMCP, "clear-mcp-cache", false, "first remove what is kept of the skills of MCP servers")
	a.completions(c)
	return c
}

func (a *app) showDoctor(checks []check) error {
	problems := 0
	t := table{}
	for _, x := range checks {
		if x.State == checkProblem {
			problems++
		}
		detail := x.Detail
		if x.Hint != "" {
			detail += "; " + x.Hint
		}
		t.add(x.State, x.Name, detail)
	}
	if a.json {
		if err := a.document(map[string]any{"ok": problems == 0, "checks": checks}); err != nil {
			return err
		}
	} else {
		t.print(a.Out, "")
	}
	if problems == 0 {
		return nil
	}
	return &problem{exit: exitFailed, code: "doctor_problems", err: fmt.Errorf("doctor found %s", plural.Of(problems, "problem")), hint: "each line above that begins with problem says what to do"}
}

// sandbox is what programs of skills would run in. That a host has none keeps
// nobody from using skills, so it is a note.
func (d *doctor) sandbox(ctx context.Context) {
	name, err := engine.Backend("", d.op)
	if err != nil {
		d.bad("sandbox", err)
		return
	}
	p, err := d.a.probe(ctx, name, d.op)
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

// host is the program and its streams.
func (d *doctor) host() {
	d.ok("program", "metier %s, %s, %s/%s, %d processors", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	switch {
	case d.a.asks():
		d.ok("terminal", "progress is drawn and questions can be asked")
	case d.a.Terminal:
		d.note("terminal", "", "progress is drawn; nobody can answer questions, since the input is no terminal: runs are batch runs")
	default:
		d.note("terminal", "", "none: progress is plain lines, runs are batch runs and answer every question with no")
	}
}

// configuration checks the operator's configuration.
func (d *doctor) configuration() {
	for _, p := range d.a.env.Files() {
		found, err := config.Check(p)
		switch {
		case err != nil:
			d.bad("config", err)
		case found:
			d.ok("config", "%s is read", p)
		default:
			if d.a.env.Get("METIER_CONFIG") != "" {
				d.note("config", "name a file that exists, or unset it", "METIER_CONFIG names %s, which does not exist: no configuration is used", p)
				continue
			}
			d.ok("config", "%s is not there", p)
		}
	}
	d.op, _ = config.Load(d.a.env) // its errors are told above
	if d.a.env.Home() == "" {
		d.note("home", "set HOME", "there is no home folder: no user configuration, no skills of the user")
	}
	state := d.a.env.StateDir()
	err := errors.New("there is no home folder: set HOME or XDG_STATE_HOME")
	if state != "" {
		err = writable(state)
	}
	if err != nil {
		d.note("witness", "make it writable, or name another folder with XDG_STATE_HOME",
			"heads of records cannot be kept outside of the workspace (%v): a cut or rewritten record would not show", err)
		return
	}
	d.ok("witness", "heads of records are kept in %s", filepath.Join(state, "heads"))
}

// writable tries to write below dir, or where dir would be made, and leaves
// nothing there.
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
	return closed(os.Remove(f.Name()), f.Close())
}

// folders are the workspace and its records.
func (d *doctor) folders(ctx context.Context, workspace string) {
	ws, err := d.a.engine().Enter(ctx, workspace)
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
	root, err := d.a.engine().RunsRoot("", d.op, ws)
	if err != nil {
		d.bad("records", err)
		return
	}
	if err := writable(root); err != nil {
		d.bad("records", &metier.Error{Op: "records", Path: root, Kind: metier.Unavailable, Code: "read_only", Hint: "put records elsewhere with --artifact-root or artifact_root", Err: err})
		return
	}
	list, err := run.List(context.Background(), root)
	if err != nil {
		d.bad("records", err)
		return
	}
	count := map[string]int{}
	for _, s := range list {
		if s.Problem != "" {
			count["with a problem"]++
		}
		if s.Status == run.StatusInterrupted || s.Status == run.StatusWaiting {
			count[s.Status]++
		}
	}
	text := fmt.Sprintf("%s in %s", plural.Of(len(list), "run"), root)
	for _, k := range []string{run.StatusInterrupted, run.StatusWaiting, "with a problem"} {
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

// skills are the settings, the roots and what is in them.
func (d *doctor) skills(ctx context.Context, named []string) {
	set, _, denied, err := d.op.Resolve(d.a.env, "", d.ws)
	if err != nil {
		d.bad("settings", profileHint(cmp.Or(d.a.env.Get("METIER_PROFILE"), d.op.Profile), err))
		return
	}
	d.ok("settings", "profile %s", cmp.Or(d.a.env.Get("METIER_PROFILE"), d.op.Profile, settings.DefaultProfile))
	for i := range named {
		named[i] = d.a.env.Path(named[i])
	}
	list, err := d.a.engine().Finder().Find(named, nil, d.op.Skills, set.Discover, d.ws, nil)
	if err != nil {
		d.bad("skills", err)
		return
	}
	if len(list) == 0 {
		d.note("skills", "name a folder with --skills-root or in the configuration", "there is no root to look for skills in")
	}
	for _, r := range list {
		d.root(ctx, r, set)
	}
	d.names(ctx, list, set, policy.Grants{Denied: slices.Concat(d.op.Deny, denied)})
	if len(named) == 0 {
		for _, f := range d.a.engine().Finder().Unsearched(ctx, set, d.ws, list) {
			d.note("skills", "include them with --set "+skillroots.IncludeFamilies(f.Agent), "%s holds %s that no run finds", f.Path, plural.Of(f.Skills, "skill"))
		}
	}
	if n := len(d.op.Deny) + len(denied); n > 0 {
		d.ok("skills", "%s denied by configuration", plural.Of(n, "skill"))
	}
}

// names lists skills whose names are doubtful beside those of all other roots,
// and counts what MCP clients are shown under the grants.
func (d *doctor) names(ctx context.Context, list []skillroots.Root, set settings.Settings, g policy.Grants) {
	snap, err := d.a.engine().Snapshot(ctx, list, set, d.ws, d.a.scans(ctx))
	if err != nil {
		return // reported for the root it concerns
	}
	d.listedOverMCP(ctx, snap, set, &g)
	const most = 20
	found := 0
	for _, sk := range snap.All() {
		for _, g := range sk.Diagnostics {
			if !diagcodes.Naming(g.Code) {
				continue
			}
			if found++; found <= most {
				d.note("names", "see 'metier explain "+termtext.Line(sk.ID.String())+"'", "%s (%s): %s", termtext.Line(sk.ID.String()), g.Code, termtext.Line(g.Detail))
			}
		}
	}
	if found > most {
		d.note("names", "'metier list --all' shows each", "%d more names are doubtful", found-most)
	}
}

// listedOverMCP counts the skills that skills/list of 'metier mcp' has, and those
// that it omits by the code of the reason. It reads the files of each skill.
func (d *doctor) listedOverMCP(ctx context.Context, snap *metier.Snapshot, set settings.Settings, grants *policy.Grants) {
	const most = 2000
	skills := snap.Skills()
	if len(skills) > most {
		d.note("mcp", "'metier mcp' counts them when it starts", "whether clients accept the %d skills was not checked: more than %d", len(skills), most)
		return
	}
	listed, omitted, reasons := 0, 0, map[string]int{}
	for _, sk := range skills {
		effect, _ := grants.Skill(sk.ID.String(), sk.Name)
		if sk.State != metier.Loaded || sk.Head.Remote || effect == policy.RuleDeny {
			continue
		}
		g, err := server.Unlisted(ctx, snap, sk, set.Activate)
		switch {
		case err != nil: // the command was canceled
			return
		case g.Code == "":
			listed++
		case g.Code != server.CodeHidden: // that is the skill's own choice
			omitted++
			reasons[g.Code]++
		}
	}
	if omitted == 0 {
		d.ok("mcp", "skills/list has %s", plural.Of(listed, "skill"))
		return
	}
	var why []string
	for _, code := range slices.Sorted(maps.Keys(reasons)) {
		why = append(why, fmt.Sprintf("%d %s", reasons[code], code))
	}
	d.note("mcp", "'metier explain NAME' shows the fix", "skills/list has %s and omits %d that clients reject: %s", plural.Of(listed, "skill"), omitted, strings.Join(why, ", "))
}

// root counts what is in one root.
func (d *doctor) root(ctx context.Context, r skillroots.Root, set settings.Settings) {
	where := cmp.Or(r.Path, "embedded")
	if r.Path != "" && !r.Named {
		if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
			d.ok("skills", "%s (%s) is not there", where, r.Tier.Or())
			return
		}
	}
	kept := d.a.scans(ctx)
	snap, err := d.a.engine().Snapshot(ctx, []skillroots.Root{r}, set, d.ws, kept)
	if err != nil {
		d.bad("skills", err)
		return
	}
	states, faults := map[string]int{}, map[string]int{}
	for _, sk := range snap.All() {
		states[string(sk.State)]++
	}
	for _, g := range snap.Diagnostics() {
		faults[string(g.Severity)]++
	}
	text := fmt.Sprintf("%s (%s): %s", where, r.Tier.Or(), plural.Of(states["loaded"], "skill"))
	for _, s := range []string{"hidden", "disabled", "shadowed", "refused"} {
		if states[s] > 0 {
			text += fmt.Sprintf(", %d %s", states[s], s)
		}
	}
	for _, s := range []string{"error", "warning"} {
		if faults[s] > 0 {
			text += ", " + plural.Of(faults[s], s)
		}
	}
	for _, x := range kept.List {
		text += "; " + took(x)
	}
	if faults["error"] > 0 || states["loaded"] == 0 && len(states) > 0 {
		d.note("skills", "'metier list --all' shows each, 'metier explain NAME' the way out", "%s", text)
		return
	}
	d.ok("skills", "%s", text)
}

// models are the ways to a model. Keys are never shown.
func (d *doctor) models(ctx context.Context) {
	reachable := false
	if want := cmp.Or(d.a.env.Get("METIER_MODEL"), d.op.Model); want != "" {
		from := "METIER_MODEL"
		if d.a.env.Get(from) == "" {
			from = "the configuration"
		}
		if _, err := provider.Open(want, d.op.Models(d.a.env)); err != nil {
			d.bad("model", fmt.Errorf("%s asks for %s: %w", from, want, err))
		} else {
			d.ok("model", "%s, from %s", want, from)
		}
		reachable = true
	}
	for _, p := range provider.All() {
		switch {
		case p.Name == "ollama":
			reachable = d.ollama(ctx, p) || reachable
		case d.op.Models(d.a.env).Key(p) != "":
			reachable = true
			d.ok("model", "%s: key is set%s", p.Name, d.at(p))
		case p.Keyless:
			d.ok("model", "%s: needs no key%s; used only when named", p.Name, d.at(p))
		default:
			d.ok("model", "%s: no key (%s)", p.Name, strings.Join(p.Keys, ", "))
		}
	}
	if !reachable {
		d.note("model", "set a provider's key, start Ollama, or give --model", "none: only runs with a recorded script work")
	}
}

// at names another address than the provider's own, without what may be secret
// in it.
func (d *doctor) at(p provider.Provider) string {
	base := d.op.Models(d.a.env).Base(p)
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return ", at an address that cannot be read"
	}
	return ", at " + u.Scheme + "://" + u.Host + u.Path
}

// ollama asks an Ollama for its models, on this machine only.
func (d *doctor) ollama(ctx context.Context, p provider.Provider) bool {
	base := d.op.Models(d.a.env).Base(p)
	if u, err := url.Parse(base); err != nil || !loopback(u.Hostname()) {
		d.ok("model", "ollama: not asked, since it is not on this machine%s", d.at(p))
		return false
	}
	name := provider.LocalOllama(ctx, base)
	if name == "" {
		d.ok("model", "ollama: none answers%s", d.at(p))
		return false
	}
	d.ok("model", "ollama: answers%s, first model %s", d.at(p), name)
	return true
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
