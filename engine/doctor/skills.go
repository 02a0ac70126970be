package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"metier"
	"metier/internal/diagcodes"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/mcp/server"
	"metier/policy"
	"metier/settings"
	"metier/skillroots"
)

// skills checks the settings and the skill roots.
func (d *doctor) skills(ctx context.Context, named []string) {
	set, _, denied, err := d.op.Resolve(d.e.Env, "", d.ws)
	if err != nil {
		d.bad("settings", err)
		return
	}
	profile, _ := d.op.DefaultProfile(d.e.Env)
	d.ok("settings", "profile %s", profile)
	list, err := d.e.Finder().Find(d.e.Env.Paths(named), nil, d.op.Skills, set, d.ws, nil)
	if err != nil {
		d.bad("skills", err)
		return
	}
	if len(list) == 0 {
		d.note("skills", "specify a folder with Request.Roots or in the configuration", "there is no folder to search for skills")
	}
	for _, r := range list {
		d.root(ctx, r, set)
	}
	d.names(ctx, list, set, policy.Grants{Denied: slices.Concat(d.op.Deny, denied)})
	if len(named) == 0 {
		for _, f := range d.e.Finder().Unsearched(ctx, set, d.ws, list) {
			d.note("skills", "to include the folder, use Request.Layers "+skillroots.IncludeFamilies(f.Agent), "%s contains %s that runs do not find", f.Path, plural.Of(f.Skills, "skill"))
		}
	}
	if n := len(d.op.Deny) + len(denied); n > 0 {
		d.ok("skills", "%s denied by configuration", plural.Of(n, "skill"))
	}
}

// names reports skills with names that are confusable across roots, and counts the skills that the
// grants show to MCP clients.
func (d *doctor) names(ctx context.Context, list []skillroots.Root, set settings.Settings, g policy.Grants) {
	snap, err := d.e.Snapshot(ctx, list, set, d.ws, d.e.Scans(ctx))
	if err != nil {
		return // reported for the root it concerns
	}
	d.listedOverMCP(ctx, snap, set, &g)
	const most = 20
	found := 0
	for sk := range snap.Each() {
		for _, g := range sk.Diagnostics {
			if !diagcodes.Naming(g.Code) {
				continue
			}
			if found++; found <= most {
				d.note("names", "see 'metier explain "+termtext.Word(sk.ID.String())+"'", "%s (%s): %s", termtext.Line(sk.ID.String()), g.Code, termtext.Line(g.Detail))
			}
		}
	}
	if found > most {
		d.note("names", "'metier list' shows each", "%s more", plural.Of(found-most, "doubtful name"))
	}
}

// listedOverMCP counts the skills that skills/list of 'metier mcp' returns, and the omitted ones by
// reason code. It reads all files of each skill.
func (d *doctor) listedOverMCP(ctx context.Context, snap *metier.Snapshot, set settings.Settings, grants *policy.Grants) {
	const most = 2000
	skills := snap.Skills()
	if len(skills) > most {
		d.note("mcp", "'metier mcp' counts them when it starts", "whether clients accept the %d skills was not checked: more than %d", len(skills), most)
		return
	}
	listed, omitted, reasons := 0, 0, map[string]int{}
	for _, sk := range skills {
		if sk.State != metier.Loaded || sk.Head.Remote || sk.Effect(grants) == policy.RuleDeny {
			continue
		}
		g, err := server.Unlisted(ctx, snap, sk, set.Activate)
		switch {
		case err != nil: // the command was canceled
			return
		case g.Code == "":
			listed++
		case g.Code != server.CodeHidden: // hidden by the skill itself
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

// root counts the skills in one root.
func (d *doctor) root(ctx context.Context, r skillroots.Root, set settings.Settings) {
	where := cmp.Or(r.Path, "embedded")
	if r.Path != "" && !r.Named {
		if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
			d.ok("skills", "%s (%s) does not exist", where, r.Tier.Or())
			return
		}
	}
	kept := d.e.Scans(ctx)
	snap, err := d.e.Snapshot(ctx, []skillroots.Root{r}, set, d.ws, kept)
	if err != nil {
		d.bad("skills", err)
		return
	}
	states, faults := map[metier.Status]int{}, map[string]int{}
	for sk := range snap.Each() {
		states[sk.State]++
	}
	for _, g := range snap.Diagnostics() {
		faults[string(g.Severity)]++
	}
	text := fmt.Sprintf("%s (%s): %s", where, r.Tier.Or(), plural.Of(states[metier.Loaded], "skill"))
	for _, s := range []metier.Status{metier.Hidden, metier.Disabled, metier.Shadowed, metier.Refused} {
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
		text += "; " + x.String()
	}
	if faults["error"] > 0 || states["loaded"] == 0 && len(states) > 0 {
		d.note("skills", "'metier list' shows each, 'metier explain NAME' the fix", "%s", text)
		return
	}
	d.ok("skills", "%s", text)
}
