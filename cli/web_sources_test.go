package cli_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/install/registrytest"
)

// sourceCommands are the script commands for tests that install from archives and web servers.
var sourceCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"pack": pack, "hosts": hosts, "registry": startRegistry, "docker": docker}

// pack writes the files of a folder into an archive: pack FILE.zip DIR.
func pack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pack FILE.zip DIR")
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	dir := os.DirFS(ts.MkAbs(args[1]))
	ts.Check(fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(dir, p)
		if err != nil {
			return err
		}
		f, err := w.Create(p)
		if err == nil {
			_, err = f.Write(raw)
		}
		return err
	}))
	ts.Check(w.Close())
	file := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
	ts.Check(os.WriteFile(file, b.Bytes(), 0o644))
}

// hosts starts a web server on this machine that serves a folder, and sets $SITE to its address: hosts
// DIR. Below /away/, it redirects to the address in the rest of the path. Below /pages/, it answers with
// a page whatever is asked for.
func hosts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hosts DIR")
	}
	files := http.FileServer(http.Dir(ts.MkAbs(args[0])))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/away/"); ok {
			http.Redirect(w, r, to, http.StatusFound)
		} else if strings.HasPrefix(r.URL.Path, "/pages/") {
			w.Write([]byte("<!DOCTYPE html><title>Sign in</title>"))
		} else {
			files.ServeHTTP(w, r)
		}
	}))
	ts.Defer(s.Close)
	ts.Setenv("SITE", s.URL)
}

// startRegistry starts a registry on this machine, and sets $REGISTRY to its host and port. With an argument,
// it asks for this user name and password: registry [USER:PASSWORD].
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: registry [USER:PASSWORD]")
	}
	g := &registrytest.Registry{}
	if len(args) == 1 {
		g.Before = func(w http.ResponseWriter, r *http.Request) bool {
			user, password, _ := r.BasicAuth()
			if user+":"+password == args[0] {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	s := httptest.NewServer(g)
	ts.Defer(s.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(s.URL, "http://"))
}

// docker signs in, as docker login does, without a credential helper or with one: docker HOST
// USER:PASSWORD, or docker HOST helper=NAME.
func docker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: docker HOST USER:PASSWORD|helper=NAME")
	}
	dir := ts.Getenv("DOCKER_CONFIG")
	ts.Check(os.MkdirAll(dir, 0o700))
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, args[0], base64.StdEncoding.EncodeToString([]byte(args[1])))
	if name, ok := strings.CutPrefix(args[1], "helper="); ok {
		text = fmt.Sprintf(`{"credHelpers":{%q:%q}}`, args[0], name)
	}
	ts.Check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
}
