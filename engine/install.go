package engine

import (
	"context"
	"path/filepath"

	"metier"
	"metier/install"
	"metier/internal/agentdirs"
	"metier/settings"
)

// LockFile is the name of a project's lock of installed skills.
const LockFile = "metier.lock"

// Installation is an open skills folder, in which skills are installed.
type Installation struct {
	*install.Store
	Dir      string // the folder
	LockFile string
	Settings settings.Settings
	Global   bool // it is the user's, not a project's
	e        *Engine
}

// Install opens the skills folder of the project in Request.Workspace, or with global, of the user.
// The caller closes it.
func (e *Engine) Install(ctx context.Context, q Request, global bool) (*Installation, error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	base := p.launch.Workspace
	in := &Installation{Settings: p.settings, Global: global, e: e}
	if global {
		if base = e.Env.Home(); base == "" {
			return nil, metier.Errorf(metier.Invalid, "no_home", "set HOME to an absolute path", "there is no home folder")
		}
		in.LockFile = filepath.Join(base, "."+agentdirs.Shared, LockFile)
	} else {
		in.LockFile = filepath.Join(base, LockFile)
	}
	in.Dir = filepath.Join(base, "."+agentdirs.Shared, "skills")
	for _, path := range []string{in.Dir, in.LockFile} {
		if err := e.Claim(ctx, path); err != nil {
			return nil, err
		}
	}
	in.Store, err = install.Open(ctx, install.Options{Dir: in.Dir, Lock: in.LockFile, Now: e.Now})
	return in, err
}

// Source reads a source as a user writes it, and checks that the settings allow it.
func (in *Installation) Source(text, dir string) (install.Source, error) {
	s, err := install.Parse(text, dir, in.e.Env.Home())
	if err != nil {
		return s, err
	}
	return s, in.allowed(s)
}

// allowed returns an error if the setting install does not have the kind of a source.
func (in *Installation) allowed(s install.Source) error {
	from := settings.InstallFromRegistry
	if s.Local() {
		from = map[install.Kind]settings.InstallFrom{install.Folder: settings.InstallFromLocal, install.Archive: settings.InstallFromZip}[s.Kind]
	}
	if in.Settings.Install.Allowed.Has(from) {
		return nil
	}
	return metier.Fieldf(metier.Denied, "Request.Layers", "install_not_allowed", "use a profile or a setting install that includes "+string(from),
		"the settings do not allow installation from %s", s)
}
