package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"metier/mcp/serve"
	"metier/mcp/server"
)

// mcpFlags are the flags of `metier mcp`.
type mcpFlags struct {
	rootFlags
	http, tokens   string
	names, origins []string
	watch          time.Duration
	anonymous      int
	endpoints      []string
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use:     "mcp [flags]",
		GroupID: "work",
		Short:   "Serve skills over the Model Context Protocol",
		Long: `Serve your skills (those that 'metier list' shows) to any client of the Model
Context Protocol. Clients see them as tools (to list, search, load, and read), as
resources under skill://, as prompts, and as entries in the extension
io.modelcontextprotocol/skills (SEP-2640). Scripts run only if you allow them with
--allow-skill-script or in the configuration.

Without --http, the server communicates over stdio with the program that started it.
With --http ADDR, it listens on that address and serves MCP at /mcp. If other machines
can reach the address, --token-file is required. Each client has its own session,
and each session is recorded, like a run.

Each --endpoint NAME=PROFILE,ROOT,... is a separate server at /mcp/NAME, with the
skills in its roots and the settings of its profile. The default roots are those
in the configuration, and the default profile is the value of --profile. Tokens
apply to all endpoints.`,
		Example: `  metier mcp
  metier mcp --skills-root ./skills --allow-skill-script report:scripts/report.py
  metier mcp --http 127.0.0.1:8931
  metier mcp --http 0.0.0.0:8931 --token-file tokens --name skills.example.org
  metier mcp --http 127.0.0.1:8931 --skills-root ./skills --endpoint ops=agent-runtime,./ops,./shared`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.mcp(c.Context(), f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.http, "http", "", "serve HTTP on this `address`, such as 127.0.0.1:8931")
	fl.StringVar(&f.tokens, "token-file", "", "`file` that lists the permitted HTTP clients, one PRINCIPAL TOKEN pair per line")
	fl.StringArrayVar(&f.names, "name", nil, "`host` name of this server that HTTP clients may use, in addition to localhost, with or without a port (repeatable)")
	fl.StringArrayVar(&f.origins, "allow-origin", nil, "allow HTTP requests from web pages with this `origin`, such as https://app.example.org (repeatable)")
	fl.DurationVar(&f.watch, "watch", 2*time.Second, "how often to check for changed skills (a `duration`; 0: never)")
	fl.StringArrayVar(&f.endpoints, "endpoint", nil, "also serve a separate endpoint at /mcp/NAME, with its own skills and settings: `NAME=PROFILE,ROOT,...` (repeatable)")
	fl.IntVar(&f.anonymous, "anonymous-records", 50, "maximum `number` of records to keep for anonymous HTTP requests, each with up to 1,000 requests; 0: keep all")
	f.add(fl)
	a.completions(c)
	c.AddCommand(a.mcpInstallCommand(), a.mcpLsCommand(), a.mcpInspectCommand())
	return c
}

func (a *app) mcp(ctx context.Context, f mcpFlags) (err error) {
	access, err := a.access(f)
	if err != nil {
		return err
	}
	points, err := serve.Endpoints(f.endpoints)
	if err != nil {
		return err
	}
	served := []servedEndpoint{}
	defer func() {
		for _, d := range slices.Backward(served) {
			err = closed(d.server.Close(context.WithoutCancel(ctx)), err)
		}
	}()
	for _, e := range append([]serve.Endpoint{{}}, points...) {
		d, err := a.openEndpoint(ctx, e, f)
		if err != nil {
			return err
		}
		served = append(served, d)
	}
	if f.http != "" {
		return a.serveHTTP(ctx, f.http, access, served)
	}
	if a.asks() {
		a.noteOmitted(served[0])
		fmt.Fprintln(a.Err, "note: waiting for a client on standard input; 'metier mcp install CLIENT' prints the configuration entry with which a client starts this server")
	}
	return served[0].server.Serve(ctx, a.In, a.Out)
}

// access reads which clients may call.
func (a *app) access(f mcpFlags) (out server.Access, err error) {
	out = server.Access{Hosts: f.names, Origins: f.origins}
	if f.anonymous < 0 {
		return out, wrong("usage", "use 0 to keep all records", "--anonymous-records cannot be negative")
	}
	if f.http == "" {
		if f.tokens != "" || len(f.names) > 0 || len(f.origins) > 0 || len(f.endpoints) > 0 {
			return out, wrong("usage", "add --http ADDRESS", "--token-file, --name, --allow-origin, and --endpoint require --http")
		}
		return out, nil
	}
	if f.tokens != "" {
		if out.Tokens, err = serve.ReadTokens(a.engine(), f.tokens); err != nil {
			return out, err
		}
	}
	if err := out.Check(); err != nil {
		return out, err
	}
	return out, serve.CheckAddress(f.http, len(out.Tokens) > 0)
}

// serveHTTP serves until the command is interrupted.
func (a *app) serveHTTP(ctx context.Context, address string, access server.Access, served []servedEndpoint) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return wrong("address_unusable", "choose another address with --http", "%v", err)
	}
	if a.env.Get("GOGC") == "" { // it stands beside other programs for days: less memory for a little more work
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	if access.SameUser, err = serve.SameUser(ctx, a.engine(), len(access.Tokens) > 0); err != nil {
		_ = l.Close()
		return err
	}
	mux := http.NewServeMux()
	for _, e := range served {
		mux.Handle(e.path(), e.server.Handler(access))
		fmt.Fprintf(a.Err, "serving skills at http://%s%s\n", l.Addr(), e.path())
	}
	for _, e := range served {
		a.noteOmitted(e)
	}
	return serve.HTTP(ctx, l, mux)
}
