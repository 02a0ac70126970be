package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/plural"
	"metier/mcp/serve"
	"metier/settings"
)

// endpoint is one of the servers that `metier mcp --http` is: its skills and
// settings.
type endpoint struct {
	name string // "": the one at /mcp
	rootFlags
}

var endpointName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)

// mostEndpoints bounds how many servers one process is: each holds an index of its skills.
const mostEndpoints = 32

// endpoints are the server of the other flags, and one for each --endpoint.
func endpoints(f mcpFlags) ([]endpoint, error) {
	const form = "write it as NAME=PROFILE,ROOT,...; profile and roots may be left out: NAME=,ROOT or NAME=PROFILE"
	out := []endpoint{{rootFlags: f.rootFlags}}
	if len(f.endpoints) > mostEndpoints {
		return nil, wrong("endpoint_invalid", "start a second server", "more than %d --endpoint", mostEndpoints)
	}
	for _, text := range f.endpoints {
		name, rest, is := strings.Cut(text, "=")
		parts := strings.Split(rest, ",")
		e := endpoint{name, f.rootFlags}
		e.scripts = nil // named by a flag for the skills at /mcp
		switch {
		case !is:
			return nil, wrong("endpoint_invalid", form, "--endpoint %s is no endpoint", text)
		case !endpointName.MatchString(name):
			return nil, wrong("endpoint_invalid", "use lower-case letters, digits and hyphens, at most 32", "--endpoint %s: the name %q cannot stand in an address", text, name)
		case slices.ContainsFunc(out, func(o endpoint) bool { return o.name == name }):
			return nil, wrong("endpoint_invalid", "give each a name of its own", "the endpoint %s is there twice", name)
		case slices.Contains(parts[1:], ""):
			return nil, wrong("endpoint_invalid", form, "--endpoint %s has a root without a name", text)
		}
		if parts[0] != "" {
			e.profile = parts[0]
		}
		e.roots = parts[1:]
		out = append(out, e)
	}
	return out, nil
}

// completeEndpoint completes the profile behind a name.
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

// servedEndpoint is an endpoint that is open.
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

// noteOmitted reports how many skills skills/list omits, and a workspace that
// scripts cannot write to.
func (a *app) noteOmitted(e servedEndpoint) {
	e.server.NoteReadOnly()
	if listed, omitted := e.server.Counts(); omitted > 0 {
		fmt.Fprintf(a.Err, "note: %s: skills/list has %s and omits %d that clients would reject; 'metier explain NAME' shows why\n", e.path(), plural.Of(listed, "skill"), omitted)
	}
}

// openEndpoint opens an endpoint. It shares nothing with others but the tokens and
// the folder of records.
func (a *app) openEndpoint(ctx context.Context, e endpoint, f mcpFlags) (servedEndpoint, error) {
	q, err := a.rootRequest(e.rootFlags)
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
	return servedEndpoint{e.name, s}, err
}
