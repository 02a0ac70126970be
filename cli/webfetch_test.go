package cli_test

import (
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/cli"
	"metier/fetch"
	"metier/internal/egress/egresstest"
)

// internetEnv names the real servers behind a simulated Internet, as
// host=address with spaces between. Only the program under test reads it.
const internetEnv = "METIER_TEST_INTERNET"

// internet is one in which each name has a public address, and behind it is a
// listener of this machine.
func internet(at map[string]string) fetch.Options {
	n := egresstest.Internet{Names: map[string][]netip.Addr{}, Hosts: map[netip.AddrPort]string{}}
	for i, host := range slices.Sorted(maps.Keys(at)) {
		public := netip.AddrFrom4([4]byte{93, 184, 216, byte(i + 34)})
		n.Names[host], n.Hosts[netip.AddrPortFrom(public, 80)] = []netip.Addr{public}, at[host]
	}
	return fetch.Options{Resolve: n.Resolve, Connect: n.Connect}
}

// mainOnline is the program on the Internet that its environment describes.
func mainOnline() {
	at := map[string]string{}
	for pair := range strings.FieldsSeq(os.Getenv(internetEnv)) {
		host, to, _ := strings.Cut(pair, "=")
		at[host] = to
	}
	os.Exit(cli.MainOnline(context.Background(), internet(at), os.Args[1:], os.Environ(), cli.System()))
}

// webCommands are the script commands for tests that read pages.
var webCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"site": site}

// site starts a web server that serves a folder as HOST and redirects requests
// below /away/ to the rest of their path, and makes the program use it: site
// HOST DIR.
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
