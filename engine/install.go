package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/install"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/internal/nearest"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
	"metier/signature"
)

// LockFile is the name of a project's lock of installed skills.
const LockFile = "metier.lock"

// HarnessLockFile is the name of a project's lock of installed harnesses.
const HarnessLockFile = "metier-harnesses.lock"

// cacheDownloads is the folder of downloads in the user's cache.
const cacheDownloads = "downloads"

// keepUp is the folder of a project or a home that contains the skills folder of the setting
// install_root=keep_up.
const keepUp = ".keep-up"

// SkillsLockFile is the name of the lock that the npm package skills keeps in a project.
const SkillsLockFile = "skills-lock.json"

// Installation is an open skills folder, in which skills are installed.
type Installation struct {
	*install.Store
	Dir      string // the folder
	LockFile string
	Settings settings.Settings
	Global   bool // it is the user's, not a project's
	trust    signature.Trust
	e        *Engine
	setBy    settings.Origins
	other    string // the lock of the package skills
}

// Install opens the skills folder of the project in Request.Workspace, or with global, of the user.
// With create, it is created if it does not exist; otherwise, and without skills in the lock, that is an
// error. The caller closes it.
func (e *Engine) Install(ctx context.Context, q Request, global, create bool) (*Installation, error) {
	return e.installation(ctx, q, global, create, false)
}

// InstallHarnesses is Install for the folder of harnesses.
func (e *Engine) InstallHarnesses(ctx context.Context, q Request, global, create bool) (*Installation, error) {
	return e.installation(ctx, q, global, create, true)
}

func (e *Engine) installation(ctx context.Context, q Request, global, create, harnesses bool) (*Installation, error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	base := p.launch.Workspace
	in := &Installation{Settings: p.settings, Global: global, e: e, setBy: p.setBy}
	if in.trust, err = e.trust(q.Policies, p.op); err != nil {
		return nil, err
	}
	if global {
		if base = e.Env.Home(); base == "" {
			return nil, metier.Errorf(metier.Invalid, "no_home", "set HOME to an absolute path", "there is no home folder")
		}
		in.other = filepath.Join(base, "."+agentdirs.Shared, ".skill-lock.json")
		if dir := e.Env.Get("XDG_STATE_HOME"); dir != "" {
			in.other = filepath.Join(dir, "skills", ".skill-lock.json")
		}
	} else {
		in.LockFile = filepath.Join(base, LockFile)
		in.other = filepath.Join(base, SkillsLockFile)
	}
	in.Dir = filepath.Join(base, "."+agentdirs.Shared, "skills")
	if in.Settings.Install.Root == settings.InstallRootKeepUp {
		in.Dir = filepath.Join(base, keepUp, "skills")
	}
	name := LockFile
	if harnesses {
		in.Dir, name = filepath.Join(filepath.Dir(in.Dir), "harnesses"), HarnessLockFile
		in.LockFile = filepath.Join(base, name)
	}
	if global {
		in.LockFile = filepath.Join(filepath.Dir(in.Dir), name)
	} else if to, ok := chosen(base, in.Dir); !ok {
		return nil, metier.Errorf(metier.Denied, "install_root_outside", "remove the link", "%s leads to %s: a project must not choose where skills are installed", in.Dir, to)
	}
	if err := in.exists(); err != nil && !create {
		return nil, err
	}
	o := install.Options{Harnesses: harnesses, Base: base, SkillsLock: in.other, KeepSkillsLock: !global, AgentDir: in.agentDir(base), Now: e.Now, Env: environ(e.Env.Vars), Progress: e.o.Fetched}
	if harnesses {
		o.SkillsLock, o.KeepSkillsLock, o.AgentDir = "", false, nil
	}
	for _, path := range []string{in.Dir, in.LockFile, in.other} {
		if err := e.Claim(ctx, path); err != nil {
			return nil, err
		}
	}
	if dir := e.Env.StateDir(); dir != "" {
		o.Key = filepath.Join(dir, "install.key")
	}
	o.Offline = q.Offline
	o.Downloads, _ = e.Env.CacheDir(cacheDownloads)
	o.Dir, o.Lock, o.Trust, o.RequireSigner = in.Dir, in.LockFile, in.trust, requiresSigner(in.Settings)
	in.Store, err = install.Open(ctx, o)
	return in, err
}

// exists returns an error if nothing is installed and there is no folder in which anything could be.
func (in *Installation) exists() error {
	if _, err := os.Lstat(in.Dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lock, err := install.ReadLock(in.LockFile)
	if err != nil || len(lock.Skills) > 0 {
		return err
	}
	return metier.Errorf(metier.NotFound, "nothing_installed", "'metier add SOURCE' installs skills", "no skills are installed: there is no folder %s", in.Dir)
}

// environ returns variables as programs get them.
func environ(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, k+"="+vars[k])
	}
	return out
}

// agentDir returns a function that returns the skills folder of an agent in a project or a home.
func (in *Installation) agentDir(base string) func(agent string) (string, error) {
	return func(name string) (string, error) {
		i := slices.Index(agentdirs.Names(), name)
		if i < 0 {
			return "", metier.Fieldf(metier.Invalid, "Request.Agents", "agent_unknown", agentHint(name), "there is no agent %q", name)
		}
		agent := agentdirs.All()[i]
		folders := agent.Project
		if in.Global {
			folders = agent.Home
		}
		if len(folders) == 0 {
			return "", metier.Fieldf(metier.Invalid, "Request.Agents", "agent_unknown", "", "%s has no such folder", agent.Title)
		}
		dir := filepath.Join(base, filepath.FromSlash(folders[0]))
		if to, ok := chosen(base, dir); !ok && !in.Global {
			return "", metier.Fieldf(metier.Denied, "Request.Agents", "agent_folder_outside", "remove the link, or omit this agent", "%s is not a skills folder of an agent: it leads to %s", dir, to)
		}
		return dir, nil
	}
}

// agentHint names the agents that a user can mean, or all.
func agentHint(name string) string {
	names := agentdirs.Names()
	for _, n := range names {
		if strings.HasPrefix(name, n+"-") { // the package skills calls claude claude-code
			return "use " + n
		}
	}
	return cmp.Or(nearest.Hint(name, names), "the agents are "+strings.Join(names, ", "))
}

// chosen returns the real path of a skills folder in a project, and whether a user chose it: a project can
// have a link in the path, which may only lead to the skills folder of another agent in the project.
func chosen(base, dir string) (real string, ok bool) {
	top, real := confine.RealPathOfExisting(base), confine.RealPathOfExisting(dir)
	rel, err := filepath.Rel(base, dir)
	if err == nil && real == filepath.Join(top, rel) {
		return real, true
	}
	folders := []string{keepUp + "/skills"}
	for _, agent := range agentdirs.All() {
		folders = append(folders, agent.Project...)
	}
	return real, slices.ContainsFunc(folders, func(f string) bool { return real == filepath.Join(top, filepath.FromSlash(f)) })
}

// Source reads a source as a user writes it, and checks that the settings allow it.
func (in *Installation) Source(text, dir string) (install.Source, error) {
	s, err := install.Parse(text, dir, in.e.Env.Home())
	if err != nil {
		return s, err
	}
	if info, err := os.Stat(filepath.Join(dir, text)); err == nil && info.IsDir() && s.Kind == install.Git {
		text = termtext.Line(text)
		in.e.Notify(Notice{Severity: Warning, Text: text + " is taken for a repository on GitHub; for the folder, use ./" + text})
	}
	return s, in.allowed(s)
}

// Update returns a plan that updates skills, as [install.Store.Update] does, if the settings allow their
// sources.
func (in *Installation) Update(ctx context.Context, names []string, force bool) (*install.Plan, error) {
	if err := in.allAllowed(names); err != nil {
		return nil, err
	}
	return in.Store.Update(ctx, names, force, in.Settings)
}

// Restore returns a plan that installs the missing skills of the lock, as [install.Store.Restore] does,
// if the settings allow their sources.
func (in *Installation) Restore(ctx context.Context, frozen bool) (*install.Plan, error) {
	if err := in.allAllowed(nil); err != nil {
		return nil, err
	}
	return in.Store.Restore(ctx, frozen, in.Settings)
}

// allAllowed checks the sources of skills in the lock; without names, of all.
func (in *Installation) allAllowed(names []string) error {
	skills := in.Lock().Skills
	for _, name := range slices.Sorted(maps.Keys(skills)) {
		if len(names) == 0 || slices.Contains(names, name) {
			if err := in.allowed(skills[name].Source); err != nil {
				return err
			}
		}
	}
	return nil
}

// allowed returns an error if the setting install does not have the kind of a source, or if the source
// must be listed and is not.
func (in *Installation) allowed(s install.Source) error {
	from := settings.InstallFromRegistry
	if s.Local() {
		from = map[install.Kind]settings.InstallFrom{install.Folder: settings.InstallFromLocal, install.Archive: settings.InstallFromZip}[s.Kind]
	}
	if in.Settings.Install.Allowed.Has(from) {
		return in.listed(s)
	}
	return metier.Fieldf(metier.Denied, "Request.Layers", "install_not_allowed", "use a profile or a setting install that includes "+string(from),
		"%s does not allow installation from %s", setter(in.setBy, "install"), s)
}

// setter returns what set a setting, for messages: a profile, or another layer.
func setter(by settings.Origins, setting string) string {
	layer := by[setting].Layer
	if profile, ok := strings.CutPrefix(layer, "profile:"); ok {
		return "the profile " + profile
	}
	return "the setting " + setting + " of " + termtext.Line(layer)
}

// origins gives skills that were installed from other machines the tier third_party, in whatever
// mount they are found.
func (e *Engine) origins(mounts []metier.Mount, workspace string) {
	stores := append(storesIn(workspace, false), storesIn(e.Env.Home(), true)...)
	for _, m := range mounts { // those of folders above the workspace
		if shared, ok := strings.CutSuffix(m.Root, string(filepath.Separator)+"skills"); ok {
			stores = append(stores, storesIn(filepath.Dir(shared), false)...)
		}
	}
	foreign, read, locks := map[string]bool{}, map[lockedFolder]bool{}, lockReader{} // foreign: by the real path of the folder
	for _, s := range stores {
		if !read[s] {
			read[s] = true
			e.foreign(s, locks, foreign)
		}
	}
	if len(foreign) == 0 {
		return
	}
	for i := range mounts {
		mounts[i].Origin = func(h *metier.Head) policy.Tier {
			dir := cmp.Or(h.Folder, filepath.Dir(h.Location))
			for ; !foreign[dir]; dir = filepath.Dir(dir) { // it can be nested in another skill
				if dir == filepath.Dir(dir) {
					return ""
				}
			}
			return policy.ThirdParty
		}
	}
}

// lockedFolder is a skills folder in which skills are installed, and its lock.
type lockedFolder struct{ dir, lock string }

// storesIn returns the skills folders of a project or a home.
func storesIn(base string, home bool) (out []lockedFolder) {
	if base == "" {
		return nil
	}
	for _, shared := range []string{"." + agentdirs.Shared, keepUp} {
		shared = filepath.Join(base, shared)
		at := base
		if home {
			at = shared
		}
		out = append(out, lockedFolder{filepath.Join(shared, "skills"), filepath.Join(at, LockFile)},
			lockedFolder{filepath.Join(shared, "harnesses"), filepath.Join(at, HarnessLockFile)})
	}
	return out
}

// lockReader reads each lock once.
type lockReader map[string]struct {
	lock install.Lock
	err  error
}

func (r lockReader) read(file string) (install.Lock, error) {
	got, ok := r[file]
	if !ok {
		got.lock, got.err = install.ReadLock(file)
		r[file] = got
	}
	return got.lock, got.err
}

// foreign adds the folders of the skills of a lock that came from another machine, or the whole
// root if the lock cannot be read.
func (e *Engine) foreign(s lockedFolder, locks lockReader, into map[string]bool) {
	lock, err := locks.read(s.lock)
	if err == nil && len(lock.Skills) == 0 {
		return
	}
	real := confine.RealPathOfExisting(s.dir)
	if err != nil {
		e.Notify(Notice{Severity: Warning, Text: "all skills of " + termtext.Line(s.dir) + " have the tier third_party: " + termtext.Line(err.Error())})
		into[real] = true
	}
	for name, entry := range lock.Skills {
		if !entry.Local() {
			into[filepath.Join(real, name)] = true
		}
	}
}

// Provenance returns where a skill was installed from, or nil if no installer noted it, or the note does not
// match the lock and the files.
func Provenance(ctx context.Context, sk metier.Skill) (*install.Provenance, error) {
	if sk.Head.Location == "" {
		return nil, nil
	}
	folder := cmp.Or(sk.Head.Folder, filepath.Dir(sk.Head.Location))
	shared := filepath.Dir(filepath.Dir(folder)) // of a project or a home
	p, ok, err := install.ReadProvenance(ctx, folder, filepath.Join(filepath.Dir(shared), LockFile), filepath.Join(shared, LockFile))
	if !ok || err != nil {
		return nil, err
	}
	return &p, nil
}

// Search asks a registry for skills, as [install.Store.Search] does, if the settings allow installation from
// registries.
func (in *Installation) Search(ctx context.Context, registry, query string, limit int) (install.Results, error) {
	if err := in.allowed(install.Source{Kind: install.Index, Location: registry}); err != nil {
		return install.Results{}, err
	}
	return in.Store.Search(ctx, registry, query, limit)
}

// InstallJobs returns a registry of installations that run in the background, into the project that project
// returns for their owner. The caller closes it.
func (e *Engine) InstallJobs(project func(owner string) (Request, error), o install.JobOptions) *install.Jobs {
	o.Now = e.Now
	o.Open = func(ctx context.Context, owner string, r install.Request) (*install.Store, settings.Settings, error) {
		q, err := project(owner)
		if err != nil {
			return nil, settings.Settings{}, err
		}
		in, err := e.Install(ctx, q, false, true)
		if err != nil {
			return nil, settings.Settings{}, err
		}
		if err := in.allowed(r.Source); err != nil {
			return nil, settings.Settings{}, errors.Join(err, in.Close())
		}
		return in.Store, in.Settings, nil
	}
	return install.NewJobs(o)
}
