package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/internal/nearest"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// skillLocation holds the flags that locate a command's skills: those that `metier run` would find
// with the same flags.
type skillLocation struct {
	placeFlags
	mcp []string // files of servers whose skills are read too
}

func (p *skillLocation) flags(c *cobra.Command) {
	p.add(c.Flags(), "project `folder` (default: the current one)")
}

// servers adds the flag for commands that also read skills of MCP servers. These are started or
// called, so a command does so only if the user names them.
func (p *skillLocation) servers(c *cobra.Command) {
	c.Flags().StringArrayVar(&p.mcp, "mcp-config", nil, "`file` that lists MCP servers; their skills are included (repeatable)")
}

// skillIndex is the set of skills that a run would find at a location.
type skillIndex struct {
	*engine.Discovery
	a      *app
	served bool // whether it has skills of servers
}

// openIndex finds the skills at a location, as a run there would.
func (a *app) openIndex(ctx context.Context, p skillLocation) (*skillIndex, error) {
	if a.env.Get("GOGC") == "" { // the command ends soon: more memory for less time
		debug.SetGCPercent(400)
	}
	layer, err := setFlag(p.set)
	if err != nil {
		return nil, err
	}
	d, err := a.engine().Discover(ctx, engine.Request{Workspace: p.workspace, Profile: p.profile, Roots: p.roots, Harnesses: p.harness, Servers: p.mcp, Layers: []settings.Layer{layer}})
	if err != nil {
		return nil, profileHint(err)
	}
	a.found = append(a.found, d)
	return &skillIndex{d, a, len(p.mcp) > 0}, nil
}

// denies reports whether the operator denied a skill that the command found.
func (a *app) denies(sk metier.Skill) bool {
	return slices.ContainsFunc(a.found, func(d *engine.Discovery) bool {
		g := policy.Grants{Denied: d.Denied}
		effect, _ := g.Skill(sk.ID.String(), sk.Name)
		return effect == policy.RuleDeny
	})
}

// entries finds skills by a user's reference, whatever their state: by ID, by name, or by the path
// of the folder or its SKILL.md.
func (sh *skillIndex) entries(subject string) []metier.Skill {
	if found := sh.Snapshot.Entries(subject); len(found) > 0 {
		return found
	}
	for _, p := range sh.places(subject) {
		if found := sh.Snapshot.At(p); len(found) > 0 {
			return found
		}
	}
	return nil
}

// places returns the forms of a path: as given, with the links of its parents resolved, and with
// all links resolved.
func (sh *skillIndex) places(subject string) []string {
	p := filepath.Clean(sh.a.env.Path(subject))
	out := []string{p}
	if dir, err := confine.RealPath(filepath.Dir(p)); err == nil {
		out = append(out, filepath.Join(dir, filepath.Base(p)))
	}
	if real, err := confine.RealPath(p); err == nil {
		out = append(out, real)
	}
	return distinct.Of(out)
}

// missing returns the error for an unknown name, with suggestions. It returns nil for a path that
// exists.
func (sh *skillIndex) missing(subject string) error {
	_, err := os.Lstat(sh.a.env.Path(subject))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	for _, sk := range sh.Snapshot.All() {
		names = append(names, termtext.Line(sk.Name))
	}
	what := "no skill has this name"
	if strings.ContainsAny(subject, `/\`) {
		what = "no skill has this name, and nothing exists at this path"
	}
	if !engine.OfRoot(subject) && !sh.served {
		return &metier.Error{Op: "find", Skill: subject, Kind: metier.NotFound, Code: "skill_not_found",
			Hint: "specify the file that lists its server with --mcp-config, or use 'metier mcp inspect SERVER'", Err: errors.New("MCP servers are searched only if you specify them")}
	}
	if len(sh.Roots) == 0 {
		return &metier.Error{Op: "find", Skill: subject, Kind: metier.NotFound, Code: "skill_registry_missing",
			Hint: "specify a skills folder with --skills-root", Err: errors.New("there is no skills root")}
	}
	hint := "'metier list --all' shows every skill"
	if path, r, ok := sh.a.engine().Finder().InAgentFolder(subject, sh.Settings.Discover, sh.Workspace, sh.Roots); ok {
		hint = sh.a.shortPath(path, sh.Workspace) + " is in a folder that is not searched; include it with " + includedBy(r, sh.Settings.Discover)
	}
	return &metier.Error{Op: "find", Skill: subject, Kind: metier.NotFound, Code: "skill_not_found",
		Hint: hint, Err: errors.New(what + nearest.Hint(subject, distinct.Of(names)))}
}

// oneSkill checks the arguments of a command about one skill.
func oneSkill(c *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" {
		return nil
	}
	what := plural.Of(len(args), "skill")
	if len(args) == 1 {
		what = "an empty name"
	}
	return &problem{exit: exitUsage, code: "usage", err: errors.New(nameOf(c) + " needs one skill, not " + what),
		hint: "specify a name from 'metier list', an ID, or the path to a skill folder"}
}
