package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier/mcp/server"
	"metier/settings"
)

// endpoint is one of the servers that `metier mcp --http` is: its skills and
// settings.
type endpoint struct {
	name string // "": the one at /mcp
	placeFlags
}

var endpointName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)

// mostEndpoints bounds how many servers one process is: each holds an index of its skills.
const mostEndpoints = 32

// endpoints are the server of the other flags, and one for each --endpoint.
func endpoints(f mcpFlags) ([]endpoint, error) {
	const form = "write it as NAME=PROFILE,ROOT,...; profile and roots may be left out: NAME=,ROOT or NAME=PROFILE"
	out := []endpoint{{placeFlags: f.placeFlags}}
	if len(f.endpoints) > mostEndpoints {
		return nil, wrong("endpoint_invalid", "start a second server", "more than %d --endpoint", mostEndpoints)
	}
	for _, text := range f.endpoints {
		name, rest, is := strings.Cut(text, "=")
		parts := strings.Split(rest, ",")
		e := endpoint{name, f.placeFlags}
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
	job    *job
	server *server.Server
	close  func() error
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
	e.job.noteReadOnly()
	if listed, omitted := e.server.Counts(); omitted > 0 {
		fmt.Fprintf(a.Err, "note: %s: skills/list has %s and omits %d that clients would reject; 'metier explain NAME' shows why\n", e.path(), plural(listed, "skill"), omitted)
	}
}

// openEndpoint opens an endpoint: nothing of it is another's but the tokens and the
// folder of records.
func (a *app) openEndpoint(ctx context.Context, e endpoint, f mcpFlags) (servedEndpoint, error) {
	p, err := a.planMCP(ctx, e.placeFlags)
	if err != nil {
		return servedEndpoint{}, err
	}
	if f.tokens != "" {
		p.launch.Closed = append(p.launch.Closed, a.env.Path(f.tokens))
	}
	j, err := a.prepare(ctx, p)
	if err != nil {
		return servedEndpoint{}, err
	}
	backend := &mcpBackend{j: j, guests: newGuests(a, j.launch, f.anonymous)}
	s, err := server.New(ctx, backend, &server.Options{Version: buildVersion(), Now: a.now, Logger: a.logger()})
	if err != nil {
		return servedEndpoint{}, closed(j.close(context.WithoutCancel(ctx)), err)
	}
	backend.server.Store(s)
	stop := func() {}
	if f.watch > 0 {
		watching, enough := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); s.Watch(watching, f.watch) }()
		stop = func() { enough(); <-done }
	}
	return servedEndpoint{e.name, j, s, func() error {
		stop()
		err := s.Close()
		backend.guests.close()
		return errors.Join(err, j.close(context.WithoutCancel(ctx)))
	}}, nil
}
