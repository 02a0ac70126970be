package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/engine"
	"metier/internal/peeruser"
	"metier/mcp/server"
)

// Endpoint is one of several servers of a process, with its own skills and settings.
type Endpoint struct {
	Name    string // "": the one at /mcp
	Profile string // "": that of the process
	Roots   []string
}

var endpointName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)

// mostEndpoints is the maximum number of servers in one process. Each holds an index of its skills.
const mostEndpoints = 32

// Endpoints parses endpoints of the form NAME=PROFILE,ROOT,...
func Endpoints(list []string) ([]Endpoint, error) {
	const form = "use the form NAME=PROFILE,ROOT,...; the profile and the roots are optional: NAME=,ROOT or NAME=PROFILE"
	if len(list) > mostEndpoints {
		return nil, metier.Errorf(metier.Invalid, "endpoint_invalid", "start a second server", "there are more than %d endpoints", mostEndpoints)
	}
	var out []Endpoint
	for _, text := range list {
		name, rest, is := strings.Cut(text, "=")
		parts := strings.Split(rest, ",")
		switch {
		case !is:
			return nil, metier.Errorf(metier.Invalid, "endpoint_invalid", form, "endpoint %s has no '='", text)
		case !endpointName.MatchString(name):
			return nil, metier.Errorf(metier.Invalid, "endpoint_invalid", "use at most 32 lowercase letters, digits, and hyphens", "endpoint %s: the name %q cannot be part of a URL", text, name)
		case slices.ContainsFunc(out, func(o Endpoint) bool { return o.Name == name }):
			return nil, metier.Errorf(metier.Invalid, "endpoint_invalid", "give each endpoint its own name", "the endpoint %s is specified twice", name)
		case slices.Contains(parts[1:], ""):
			return nil, metier.Errorf(metier.Invalid, "endpoint_invalid", form, "endpoint %s has an empty root", text)
		}
		out = append(out, Endpoint{name, parts[0], parts[1:]})
	}
	return out, nil
}

// shortestToken is the minimum length of a token, in bytes.
const shortestToken = 16

// ReadTokens reads a file of lines PRINCIPAL TOKEN. A notice reports a file that
// others can read.
func ReadTokens(e *engine.Engine, file string) (map[string]string, error) {
	path := e.Env.Path(file)
	f, err := os.Open(path)
	if err != nil {
		return nil, metier.Errorf(metier.Invalid, "token_file", "specify a file of lines PRINCIPAL TOKEN", "the token file cannot be read: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, metier.Errorf(metier.Invalid, "token_file", "specify a file of lines PRINCIPAL TOKEN", "%s is not a file", path)
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
			return nil, metier.Errorf(metier.Invalid, "token_file", "each line is PRINCIPAL TOKEN", "%s:%d is not a principal and a token", path, n)
		case len(words[1]) < shortestToken:
			return nil, metier.Errorf(metier.Invalid, "token_file", "use long random tokens", "%s:%d: the token of %s has fewer than %d characters", path, n, words[0], shortestToken)
		case out[words[0]] != "":
			return nil, metier.Errorf(metier.Invalid, "token_file", "give each principal one line", "%s:%d: %s is listed twice", path, n, words[0])
		case whose[words[1]] != "":
			return nil, metier.Errorf(metier.Invalid, "token_file", "give each principal its own token", "%s:%d: %s has the token of %s", path, n, words[0], whose[words[1]])
		}
		out[words[0]], whose[words[1]] = words[1], words[0]
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, metier.Errorf(metier.Invalid, "token_file", "each line is PRINCIPAL TOKEN", "%s contains no tokens", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		e.Notify(engine.Notice{Severity: engine.Warning, Text: fmt.Sprintf("other users can read or change the tokens in %s; run chmod 600 on it", path)})
	}
	return out, nil
}

// CheckAddress checks an address to serve HTTP at. One that other machines can
// reach needs tokens.
func CheckAddress(address string, tokens bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return metier.Errorf(metier.Invalid, "usage", "write it as 127.0.0.1:8931", "%q is not an address with a port", address)
	}
	if ip := net.ParseIP(host); !tokens && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return metier.Errorf(metier.Invalid, "token_needed", "specify a file of tokens, or listen on 127.0.0.1", "other machines can reach %s without a token", address)
	}
	return nil
}

// SameUser reports whether a server requires that its clients run as the same user: if it has no
// tokens, on Linux. It fails if Linux does not report which user opened a connection, as in some
// containers. Other systems never do, which a notice reports.
func SameUser(ctx context.Context, e *engine.Engine, tokens bool) (bool, error) {
	if tokens {
		return false, nil
	}
	return sameUser(e, runtime.GOOS, peeruser.Works(ctx))
}

func sameUser(e *engine.Engine, system string, why error) (bool, error) {
	switch {
	case why == nil:
		return true, nil
	case system == "linux":
		return false, metier.Errorf(metier.Invalid, "token_needed", "specify a file of tokens", "every user of this machine could connect without a token, because the system does not report which user opened a connection: %v", why)
	}
	e.Notify(engine.Notice{Severity: engine.Note, Text: "every user of this machine can connect and answer questions, because this system does not report which user opened a connection; to let in only clients with a token, specify a file of tokens"})
	return false, nil
}

// HTTP serves until the context ends. Calls in progress get ten seconds to finish.
func HTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	server.LimitConnections(srv)
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
