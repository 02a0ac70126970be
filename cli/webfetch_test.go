package cli_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/cli"
	"metier/fetch"
)

// internetEnv names the real servers behind a made-up Internet, host=address
// and blanks between. It is read by the program under test alone.
const internetEnv = "METIER_TEST_INTERNET"

// mainOnline is the program on the Internet that its environment makes up: each
// name has a public address, and behind that is a listener of this machine.
func mainOnline() {
	at := map[string]string{}
	for pair := range strings.FieldsSeq(os.Getenv(internetEnv)) {
		host, to, _ := strings.Cut(pair, "=")
		at[host] = to
	}
	public := netip.MustParseAddr("93.184.216.34")
	names := map[netip.Addr]string{}
	o := fetch.Options{
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if at[host] == "" {
				return nil, errors.New("no such host")
			}
			names[public] = at[host]
			return []netip.Addr{public}, nil
		},
		Connect: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", names[a.Addr()])
		},
	}
	os.Exit(cli.MainOnline(context.Background(), o, os.Args[1:], os.Environ(), cli.System()))
}

// webCommands are the script commands for tests that read pages.
var webCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"site": site}

// site starts a web server that serves a folder to HOST, which redirects below
// /away/ to what follows, and tells the program of it: site HOST DIR.
func site(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: site HOST DIR")
	}
	files := http.FileServer(http.Dir(ts.MkAbs(args[1])))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, is := strings.CutPrefix(r.URL.Path, "/away/"); is {
			http.Redirect(w, r, "http://"+to, http.StatusFound)
			return
		}
		files.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	ts.Defer(s.Close)
	ts.Setenv(internetEnv, strings.TrimSpace(ts.Getenv(internetEnv)+" "+args[0]+"="+s.Listener.Addr().String()))
}
