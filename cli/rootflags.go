package cli

import (
	"github.com/spf13/pflag"

	"metier/config"
	"metier/engine"
)

// rootFlags are the flags of commands that use skills without a model of their
// own: where they work, with which skills and settings, and what may run.
type rootFlags struct {
	programFlags
	workspace, profile, artifacts string
	roots, set, harness           []string
}

func (f *rootFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.workspace, "workspace", "", "folder that scripts work in (default: the current one)")
	fl.StringArrayVar(&f.roots, "skills-root", nil, "folder of skills, relative to the workspace (repeatable; default: the configuration's)")
	harnessFlag(fl, &f.harness)
	fl.StringVar(&f.profile, "profile", "", "set of settings, see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "one setting: name=value (repeatable)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "folder for the record (default: .metier/runs in the workspace)")
	f.programFlags.add(fl)
}

// rootRequest is what the flags ask of a run without a model.
func (a *app) rootRequest(f rootFlags) (q engine.Request, err error) {
	q = engine.Request{Surface: surface, Workspace: f.workspace, Artifacts: f.artifacts, Roots: f.roots, Harnesses: f.harness, Profile: f.profile}
	f.request(&q)
	q.Layers, err = a.flagLayers(runFlags{programFlags: f.programFlags, set: f.set, harness: f.harness}, config.RunFile{})
	return q, err
}
