package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/plural"
	"metier/mcp/serve"
	"metier/settings"
)

// completeEndpoint completes the profile in NAME=PROFILE.
func completeEndpoint(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, rest, is := strings.Cut(typed, "=")
	if !is || strings.Contains(rest, ",") {
		return nil, cobra.ShellCompDirectiveNoSpace
	}
	var out []cobra.Completion
	for _, p := range settings.Profiles() {
		out = append(out, name+"="+p)
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

type servedEndpoint struct {
	name   string
	server *serve.Server
}

func (e servedEndpoint) path() string {
	if e.name == "" {
		return "/mcp"
	}
	return "/mcp/" + e.name
}

// noteOmitted reports how many skills skills/list omits, and a workspace that scripts cannot write
// to.
func (a *app) noteOmitted(e servedEndpoint) {
	e.server.NoteReadOnly()
	if listed, omitted := e.server.Counts(); omitted > 0 {
		fmt.Fprintf(a.Err, "note: %s: skills/list has %s and omits %d that clients would reject; 'metier explain NAME' shows why\n", e.path(), plural.Of(listed, "skill"), omitted)
	}
}

// openEndpoint opens an endpoint. Endpoints share only the tokens and the folder of records.
func (a *app) openEndpoint(ctx context.Context, e serve.Endpoint, f mcpFlags) (servedEndpoint, error) {
	flags := f.rootFlags
	if e.Name != "" {
		flags.profile, flags.roots, flags.scripts = cmp.Or(e.Profile, f.profile), e.Roots, nil // a flag names scripts of the skills at /mcp
	}
	q, err := a.rootRequest(flags)
	if err != nil {
		return servedEndpoint{}, err
	}
	if f.tokens != "" {
		q.Closed = []string{f.tokens}
	}
	p, err := serve.Plan(ctx, a.engine(), q)
	if err != nil {
		return servedEndpoint{}, err
	}
	s, err := serve.Open(ctx, a.engine(), p, serve.Options{Version: buildVersion(), Watch: f.watch, Anonymous: f.anonymous})
	return servedEndpoint{e.Name, s}, err
}
