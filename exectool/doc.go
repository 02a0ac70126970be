// Package exectool provides the tools with which a model runs programs: scripts of skills and, if
// the operator allows it, shell commands. Both follow the same steps:
//
//	gates    what has to hold of a script, in a fixed order
//	decide   policy, in the session's gate
//	stage    files read, compared with the index, and put apart as they are
//	run      in the sandbox, with nothing of this process's environment
//	record   how it ended, and what it wrote
//
// A program starts only after every gate has passed. If a gate fails, the call is denied with a
// code and nothing has happened.
package exectool

import (
	"context"
	"log/slog"

	"metier"
	"metier/internal/egress"
	"metier/record"
	"metier/sandbox"
	"metier/settings"
)

// Options configure how programs run. Sandbox is required.
type Options struct {
	Sandbox   sandbox.Sandbox
	Workspace *sandbox.Workspace // where they work; nil: a scratch folder of their own
	// Current returns Workspace with the protections in effect when a program starts. Other
	// processes may add to these. If nil, Workspace is used.
	Current func() *sandbox.Workspace
	Limits  sandbox.Limits // zero fields take sandbox.DefaultLimits
	// AcceptLevel accepts whatever isolation the sandbox provides, including none. Only the
	// operator can set it, never a setting from a lower layer.
	AcceptLevel bool
	Exec        settings.Exec
	Name        string      // of the script tool, as the model sees it; "" leaves the tool out
	View        metier.View // how host paths look to the model
	// ByPath, if set, makes the script tool accept a skill's path and a script's name, as in
	// harnesses, and resolves them to the skill and file. If nil, the tool accepts a skill's name
	// and the file's path in its folder.
	ByPath func(ctx context.Context, s *metier.Session, skill, script string) (name, file string, err error)
	Host   *Host    // scripts that run on this machine itself; nil: none does
	Run    string   // the run's id, for the scripts' environment
	Hosts  []string // that the operator granted: exact names or *.x
	// Egress creates the proxy of a program that may reach hosts. The default, egress.New, reaches
	// only public addresses. Only this module can name the type.
	Egress func(egress.Rules) (*egress.Proxy, error)
	// Secrets returns the variables for scripts of a skill, by name and value. They are never shown
	// to a model.
	Secrets func(ctx context.Context, sk metier.Skill) ([]record.Secret, error)
	// Output, if set, receives the output of a call's program as it is written, one piece at a time
	// per call.
	Output func(call, stream string, p []byte)
	Logger *slog.Logger // nil: discard
}

// Tools returns run_skill_script and bash. Grants decide which of them a model gets. Neither is in
// a default set.
func Tools(o Options) []metier.Tool {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.Or(sandbox.DefaultLimits)
	r := &runner{Options: o}
	var out []metier.Tool
	if o.Name != "" && !o.Exec.NoScripts() {
		out = append(out, scriptTool{r})
	}
	return append(out, bashTool{r})
}
