// Command modulepath gives a copy of this repository another module path, for who
// takes it over: modulepath PATH ROOT. Without ROOT it says whether PATH is a
// module path. tools/module makes the copy and builds it.
//
// It changes go.mod files, those of nested modules too, imports, and what
// comments and documents say of packages. Other texts are left alone: metier is
// also the name of the program, of its folders and of what it calls itself.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("write it as: modulepath PATH [ROOT]")
	}
	if !valid.MatchString(args[0]) {
		return fmt.Errorf("%q is no module path: write it as github.com/you/metier", args[0])
	}
	if len(args) == 1 {
		return nil
	}
	r, err := newRename(args[1], args[0])
	if err != nil {
		return err
	}
	n, err := r.all()
	if err == nil {
		fmt.Printf("%s is %s now, in %d files\n", r.old, r.path, n)
	}
	return err
}

// rename is one change of path.
type rename struct {
	root      string
	old, path string
	name      string // of the root package
	dirs      map[string]bool
	spoken    *regexp.Regexp // a package in a comment or a document
	imported  *regexp.Regexp // an import, or what is typed to get a package, in a document
}

// valid is the part of a module path that the toolchain takes from anywhere: it
// begins with a host. Upper case is escaped in caches, and is allowed.
var valid = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)+$`)

var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+"?([^\s"]+)"?`)

func newRename(root, to string) (*rename, error) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	m := moduleLine.FindSubmatch(b)
	if m == nil {
		return nil, errors.New("go.mod names no module")
	}
	r := &rename{root: root, old: string(m[1]), path: to, dirs: map[string]bool{}}
	q := regexp.QuoteMeta(r.old)
	r.spoken = regexp.MustCompile(`(^|[^\w./-])` + q + `((?:/[a-z0-9_]+){2,})\b`)
	r.imported = regexp.MustCompile(`(?m)(^\s*(?:import )?(?:\w+ )?"|\bgo (?:get|install|doc|run) |\bpkg\.go\.dev/)` + q + `((?:/[a-z0-9_]+)*)(["@\s]|$)`)
	doc, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "doc.go"), nil, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	r.name = doc.Name.Name
	return r, nil
}

// all changes the files and counts them.
func (r *rename) all() (n int, err error) {
	files := []string{}
	err = filepath.WalkDir(r.root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".metier", "bin", "dist", "node_modules"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if path.Ext(p) == ".go" {
			rel, err := filepath.Rel(r.root, filepath.Dir(p))
			if err != nil {
				return err
			}
			r.dirs[filepath.ToSlash(rel)] = true
		}
		files = append(files, p)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, p := range files {
		changed, err := r.file(p)
		if err != nil {
			return n, fmt.Errorf("%s: %w", p, err)
		}
		if changed {
			n++
		}
	}
	return n, nil
}

func (r *rename) file(p string) (changed bool, err error) {
	var change func(string) (string, error)
	switch {
	case filepath.Base(p) == "go.mod":
		change = r.module
	case filepath.Ext(p) == ".go":
		change = r.source
	case filepath.Ext(p) == ".md":
		change = func(s string) (string, error) { return r.text(r.imports(s)), nil }
	default:
		return false, nil
	}
	info, err := os.Stat(p)
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(p)
	if err != nil || !strings.Contains(string(b), r.old) {
		return false, err
	}
	s, err := change(string(b))
	if err != nil || s == string(b) {
		return false, err
	}
	return true, os.WriteFile(p, []byte(s), info.Mode().Perm())
}

// module changes a go.mod: its own name, and what it requires and replaces. A
// path that ends in /vN has versions of that number.
func (r *rename) module(s string) (string, error) {
	q := regexp.QuoteMeta(r.old)
	s = regexp.MustCompile(`(?m)^(module[ \t]+)`+q+`(/|[ \t\r]*$)`).ReplaceAllString(s, "${1}"+r.path+"${2}")
	version := "v0.0.0"
	if v := path.Base(r.path); regexp.MustCompile(`^v([2-9]|[1-9][0-9]+)$`).MatchString(v) {
		version = v + ".0.0"
	}
	s = regexp.MustCompile(`(?m)^([ \t]*(?:require[ \t]+)?)`+q+`[ \t]+v[0-9]\S*`).ReplaceAllString(s, "${1}"+r.path+" "+version)
	return regexp.MustCompile(`(?m)^([ \t]*(?:replace[ \t]+)?)`+q+`([ \t]+=>)`).ReplaceAllString(s, "${1}"+r.path+"${2}"), nil
}

// source changes the imports and comments of a Go file, and puts the imports in
// their order again.
func (r *rename) source(s string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", s, parser.ParseComments)
	if err != nil {
		return "", err
	}
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	at := func(n ast.Node) (int, int) { return fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset }
	for _, im := range f.Imports {
		was, err := strconv.Unquote(im.Path.Value)
		rel, ours := strings.CutPrefix(was, r.old)
		if err != nil || !ours || rel != "" && rel[0] != '/' {
			continue
		}
		text := strconv.Quote(r.path + rel)
		if rel == "" && im.Name == nil && path.Base(r.path) != r.name {
			text = r.name + " " + text // who reads it knows what it is called
		}
		from, to := at(im.Path)
		edits = append(edits, edit{from, to, text})
	}
	for _, g := range f.Comments {
		for _, c := range g.List {
			if text := r.text(c.Text); text != c.Text {
				from, to := at(c)
				edits = append(edits, edit{from, to, text})
			}
		}
	}
	if len(edits) == 0 {
		return s, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		s = s[:e.from] + e.text + s[e.to:]
	}
	b, err := format.Source([]byte(s))
	return string(b), err
}

// text changes the packages that a comment or a document speaks of.
func (r *rename) text(s string) string {
	return r.spoken.ReplaceAllStringFunc(s, func(x string) string {
		m := r.spoken.FindStringSubmatch(x)
		if !r.dirs[strings.TrimPrefix(m[2], "/")] {
			return x // a folder of a user
		}
		return m[1] + r.path + m[2]
	})
}

// imports changes imports and commands in a document.
func (r *rename) imports(s string) string {
	return r.imported.ReplaceAllString(s, "${1}"+strings.ReplaceAll(r.path, "$", "$$")+"${2}${3}")
}
