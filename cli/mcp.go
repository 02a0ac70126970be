package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		Long: `Mcp serves the skills that 'metier list' shows to any client of the Model Context
Protocol: as tools (list, search, load, read a file), as resources below skill://,
as prompts, and as entries of the extension io.modelcontextprotocol/skills
(SEP-2640). Scripts run only where --allow-skill-script or the configuration names
them.

Without --http it serves the program that started it, on standard input and
output. With --http it serves the path /mcp at an address; one that other machines
reach wants --token-file. Each client has a session of its own, and each session
leaves a record, as a run does.

Each --endpoint NAME=PROFILE,ROOT,... is a server of its own at /mcp/NAME, with the
skills of its roots and the settings of its profile; without roots it has those of
the configuration, without a profile that of --profile. Tokens count for all.`,
		Example: `  metier mcp
  metier mcp --skills-root ./skills --allow-skill-script report:scripts/report.py
  metier mcp --http 127.0.0.1:8931
  metier mcp --http 0.0.0.0:8931 --token-file tokens --name skills.example.org
  metier mcp --http 127.0.0.1:8931 --skills-root ./skills --endpoint ops=agent-runtime,./ops,./shared`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.mcp(c.Context(), f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.http, "http", "", "serve HTTP at this address, such as 127.0.0.1:8931")
	fl.StringVar(&f.tokens, "token-file", "", "file of who may call over HTTP: lines of PRINCIPAL TOKEN")
	fl.StringArrayVar(&f.names, "name", nil, "name by which HTTP clients call this server, beside localhost (repeatable)")
	fl.StringArrayVar(&f.origins, "allow-origin", nil, "origin of web pages that may call over HTTP (repeatable)")
	fl.DurationVar(&f.watch, "watch", 2*time.Second, "how often to look for changed skills; 0: never")
	fl.StringArrayVar(&f.endpoints, "endpoint", nil, "serve other skills or settings at /mcp/NAME too: NAME=PROFILE,ROOT,... (repeatable)")
	fl.IntVar(&f.anonymous, "anonymous-records", 50, "records to keep of HTTP requests that name nobody; each has up to 1,000 requests; 0: all")
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
	points, err := endpoints(f)
	if err != nil {
		return err
	}
	served := make([]servedEndpoint, 0, len(points))
	defer func() {
		for _, d := range slices.Backward(served) {
			err = closed(d.server.Close(context.WithoutCancel(ctx)), err)
		}
	}()
	for _, e := range points {
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
		fmt.Fprintln(a.Err, "note: waiting for a client on standard input; 'metier mcp install CLIENT' prints the entry by which one starts this")
	}
	return served[0].server.Serve(ctx, a.In, a.Out)
}

// access reads who may call, and refuses to open a door to other machines
// without a key.
func (a *app) access(f mcpFlags) (server.Access, error) {
	out := server.Access{Hosts: f.names, Origins: f.origins}
	if f.anonymous < 0 {
		return out, wrong("usage", "give 0 to keep all", "--anonymous-records cannot be negative")
	}
	if f.http == "" {
		if f.tokens != "" || len(f.names) > 0 || len(f.origins) > 0 || len(f.endpoints) > 0 {
			return out, wrong("usage", "add --http ADDRESS", "--token-file, --name, --allow-origin and --endpoint are for --http")
		}
		return out, nil
	}
	host, _, err := net.SplitHostPort(f.http)
	if err != nil {
		return out, wrong("usage", "write it as 127.0.0.1:8931", "--http %s is no address and port", f.http)
	}
	if f.tokens != "" {
		if out.Tokens, err = a.readTokens(f.tokens); err != nil {
			return out, err
		}
	}
	if ip := net.ParseIP(host); len(out.Tokens) == 0 && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return out, wrong("token_needed", "name a file of tokens with --token-file, or bind to 127.0.0.1", "other machines reach %s, and anybody there could call", f.http)
	}
	return out, nil
}

// shortestToken is the least a token has to have, in bytes.
const shortestToken = 16

// readTokens reads lines of a principal and its token.
func (a *app) readTokens(file string) (map[string]string, error) {
	path := a.env.Path(file)
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong("token_file", "give a file of lines PRINCIPAL TOKEN", "the tokens cannot be read: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, wrong("token_file", "give a file of lines PRINCIPAL TOKEN", "%s is no file", path)
	}
	out, whose := map[string]string{}, map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		switch {
		case len(words) != 2:
			return nil, wrong("token_file", "each line is PRINCIPAL TOKEN", "%s:%d is no principal and token", path, n)
		case len(words[1]) < shortestToken:
			return nil, wrong("token_file", "use long random ones", "%s:%d: the token of %s has fewer than %d characters", path, n, words[0], shortestToken)
		case out[words[0]] != "":
			return nil, wrong("token_file", "give each principal one line", "%s:%d: %s is there twice", path, n, words[0])
		case whose[words[1]] != "":
			return nil, wrong("token_file", "give each principal a token of its own", "%s:%d: %s has the token of %s", path, n, words[0], whose[words[1]])
		}
		out[words[0]], whose[words[1]] = words[1], words[0]
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, wrong("token_file", "each line is PRINCIPAL TOKEN", "%s has no token", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(a.Err, "note: others on this machine can read or change the tokens in %s; chmod 600 keeps them out\n", oneLine(path))
	}
	return out, nil
}

// serveHTTP serves until the command is interrupted; calls under way may end.
func (a *app) serveHTTP(ctx context.Context, address string, access server.Access, served []servedEndpoint) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return wrong("address_unusable", "choose another address with --http", "%v", err)
	}
	if a.env.Get("GOGC") == "" { // it stands beside other programs for days: less memory for a little more work
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	mux := http.NewServeMux()
	for _, e := range served {
		mux.Handle(e.path(), e.server.Handler(access))
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	for _, e := range served {
		fmt.Fprintf(a.Err, "serving skills at http://%s%s\n", l.Addr(), e.path())
	}
	for _, e := range served {
		a.noteOmitted(e)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		_ = srv.Close() // listeners of clients that stay on
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
