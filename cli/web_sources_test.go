package cli_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// sourceCommands are the script commands for tests that install from archives and web servers.
var sourceCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"pack": pack, "hosts": hosts}

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
