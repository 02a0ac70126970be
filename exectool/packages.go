package exectool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/runtimes"
	"metier/sandbox"
	"metier/settings"
)

// dependencies checks whether the packages declared by a script or its skill are installed where it
// runs. Missing ones are recorded as requested but never installed. A setting decides whether the
// script still runs.
func (r *runner) dependencies(ctx context.Context, x *metier.ToolContext, p prepared) error {
	names := slices.Clone(p.command.Needs)
	for _, d := range p.skill.Head.Front.Dependencies {
		if n := runtimes.Package(d); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return nil
	}
	missing, err := r.missing(ctx, p, names)
	if err != nil || len(missing) == 0 {
		return err
	}
	reject := r.Exec.MissingDependency == settings.MissingDependencyReject
	x.Record(event.PackagesRequested{Call: x.Call().ID, SkillID: p.skill.ID.String(), Path: short(p.script.Path), Runtime: p.command.Runtime, Packages: missing, Rejected: reject})
	if !reject {
		return nil
	}
	return &metier.Error{Op: "run", Skill: p.skill.Name, Path: p.script.Path, Kind: metier.Unavailable, Code: "dependency_missing",
		Hint: "install what is missing in a system folder, or set missing_dependency to warn", Err: fmt.Errorf("declared but not installed: %s", strings.Join(missing, ", "))}
}

// missing asks the interpreter, where the script would run, which packages it lacks. A name that is
// a program counts as installed.
func (r *runner) missing(ctx context.Context, p prepared, names []string) ([]string, error) {
	box := r.box(p.host)
	find := runtimes.Lookup(box.Probe(ctx).Visible)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		for _, program := range []string{strings.ToLower(n), strings.ToLower(n) + "3"} { // python is python3
			if _, ok := find(program); ok {
				return true
			}
		}
		return false
	})
	argv := runtimes.Inventory(p.command.Runtime, find)
	if len(names) == 0 || argv == nil {
		return names, nil
	}
	ran, err := box.Run(ctx, sandbox.Job{Argv: append(argv, names...), Env: Environment(), Limits: r.Limits, MinLevel: r.least(p.host)})
	_, lost := errors.AsType[*sandbox.Lost](err)
	if err != nil && !lost {
		return nil, Failed(err)
	}
	if lost || ran.Limit != "" || ran.Signal != "" || ran.Exit != 0 {
		return names, nil // it could not say: then nothing is known to be there
	}
	there := strings.Fields(string(ran.Stdout))
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(there, n) }), nil
}
