// Package exectool holds the tools by which a model runs programs: scripts of
// skills and, where the operator allowed it, shell commands. Both take the same
// way:
//
//	gates    what has to hold of a script, in a fixed order
//	decide   policy, in the session's gate
//	stage    files read, compared with the index, and put apart as they are
//	run      in the sandbox, with nothing of this process's environment
//	record   how it ended, and what it wrote
//
// A program that starts is one that every gate let through; what a gate finds
// wrong is a refusal with a code, and nothing has happened then.
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

// Options say what programs get. Sandbox is required.
type Options struct {
	Sandbox   sandbox.Sandbox
	Workspace *sandbox.Workspace // where they work; nil: a scratch folder of their own
	// Current is Workspace with what has to be protected when a program starts,
	// which other processes may add to; nil: Workspace.
	Current func() *sandbox.Workspace
	Limits  sandbox.Limits // zero fields take sandbox.DefaultLimits
	// AcceptLevel lets programs have whatever isolation the sandbox gives, down
	// to none. It is an operator's word, never a setting below.
	AcceptLevel bool
	Exec        settings.Exec
	Name        string      // of the script tool, as the model sees it; "" leaves the tool out
	View        metier.View // how host paths look to the model
	// ByPath, if set, has the script tool take a skill's path and the name of a
	// script, as harnesses have it, and says which skill and file that
	// is. nil: it takes a skill's name and the file's path in its folder.
	ByPath func(ctx context.Context, s *metier.Session, skill, script string) (name, file string, err error)
	Host   *Host    // scripts that run on this machine itself; nil: none does
	Run    string   // the run's id, for the scripts' environment
	Hosts  []string // that the operator granted: exact names or *.x
	// Egress makes the proxy of a program that may reach hosts; nil: egress.New,
	// which reaches public addresses alone. Only this module can name the type.
	Egress func(egress.Rules) (*egress.Proxy, error)
	// Secrets are the variables that scripts of a skill get, by name and value.
	// No model sees them. nil: none.
	Secrets func(ctx context.Context, sk metier.Skill) ([]record.Secret, error)
	// Output is told what a call's program writes, as it comes, one piece of one
	// call at a time; nil: nobody.
	Output func(call, stream string, p []byte)
	Logger *slog.Logger // nil: discard
}

// Tools returns run_skill_script and bash. Grants decide which of them a model
// gets; neither is in any default set.
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
