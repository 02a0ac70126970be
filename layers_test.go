package metier_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

// layer is a set of packages at one height. A package imports only from lower
// heights: packages at the same height are siblings, and siblings do not know
// each other.
type layer struct {
	name   string
	height int
	paths  []string // relative to the module; "x/" is everything below x
	why    string
}

// layers is the direction of the whole tree, lowest first. A package is in the
// layer with the longest path that fits.
var layers = []layer{
	{"leaf", 0, []string{"internal/"}, "a leaf knows nothing of metier, so that anything may stand on it"},
	{"builtin", 0, []string{"skills"}, "embedded skills are data"},
	{"base", 10, []string{"skillmd", "skillmd/", "policy", "record", "model", "sandbox", "sandbox/native/internal/plan", "sandbox/internal/filter"}, "each of these can be read, tested and used alone"},
	{"words", 20, []string{"event", "registry", "settings"}, "they name what the layers above agree on"},
	{"folders", 20, []string{"skillmd/folder"}, "what is in a folder of a skill is checked without settings, by both validators"},
	{"signatures", 20, []string{"signature"}, "who vouches for a skill's files is checked without settings, before the skill is installed"},
	{"scanner", 20, []string{"scan"}, "what a skill's files do is found without settings, before a skill is loaded or installed; it reads frontmatter as skillmd does"},
	{"step", 25, []string{"agent/step"}, "the step machine is data and rules; who drives it is above"},
	{"core", 30, []string{"."}, "the flow knows its ports, never who implements or calls them"},
	{"child", 35, []string{"agent/subagent"}, "what a child is and what comes back of it stands below the driver that runs it"},
	{"inner", 35, []string{"source/internal/", "model/internal/", "sandbox/internal/", "sandbox/gvisor/internal/", "sandbox/native/internal/"}, "what adapters of one port share stands below them"},
	{"adapter", 40, []string{"agent", "browser", "browser/", "fetch", "exectool", "run", "telemetry", "filetool", "source/", "model/", "harness", "sandbox/"}, "only the engine picks implementations, so adapters can be swapped and tested one at a time"},
	{"providers", 45, []string{"model/provider"}, "which models there are is known above their adapters"},
	{"protocol", 50, []string{"mcp/", "wellknown"}, "a protocol is spoken below the application that uses it"},
	{"configuration", 52, []string{"config"}, "what an operator and a project wrote down is read in one place, for every surface"},
	{"application", 54, []string{"skillroots", "userstate", "install"}, "each part of the application can be used without the others"},
	{"engine", 56, []string{"engine"}, "the application knows no surface, so that every surface can call it"},
	{"diagnosis", 57, []string{"engine/doctor"}, "it asks the engine what a run would find, and words nothing for one surface"},
	{"surface", 58, []string{"mcp/serve", "mcp/install", "chat", "httpapi", "web", "worker"}, "a surface is a thin client of the engine"},
	{"wiring", 60, []string{"cli"}, "everything is put together here, and only main stands above"},
	{"main", 70, []string{"cmd/", "conformance/", "examples/"}, "main holds nothing worth importing"},
}

// fence restricts what a package may import, in addition to its layer.
type fence struct {
	pkg  string   // as in layer.paths
	own  []string // the only packages of the module that it may import; nil: as its layer
	std  bool     // it imports no other module
	pure []string // the only packages of the standard library; nil: any
	why  string
}

var fences = []fence{
	{"policy", []string{}, true, nil, "a decision depends on its arguments and on nothing else"},
	{"model", []string{}, true, nil, "providers' types stay inside their adapters"},
	{"sandbox", []string{}, true, nil, "a backend needs to know the port and nothing else"},
	{"record", []string{"internal/"}, true, nil, "a log has to verify without the rest of the program"},
	{"event", []string{"policy", "record", "internal/"}, true, nil, "old logs have to be read by every later release"},
	{"skillmd", []string{"internal/"}, false, nil, "the syntax of a SKILL.md is the same under every setting"},
	{"skillmd/", []string{"internal/"}, false, nil, "another validator's reading must not follow ours"},
	{"scan", []string{"skillmd", "internal/"}, false, nil, "a scan depends on the files and the rules, and on nothing that a run decides"},
	{"signature", []string{"internal/"}, false, nil, "a signature is about the files and their signer, and about nothing that a run decides"},
	{"settings", []string{"internal/"}, false, nil, "settings are data about stages, not parts of them"},
	{"agent/step", []string{"event", "model", "policy", "record"}, true,
		[]string{"encoding/json", "errors", "fmt", "slices", "strings", "unicode", "cmp", "iter", "maps", "strconv"},
		"the machine reads no clock, file or dice, so that a fold of the log gives the same state everywhere"},
	{"model/", []string{"model", "model/internal/", "internal/"}, false, nil, "an adapter translates one provider's wire and knows nothing of skills"},
}

// homes are the folders that import a module, usually one; tests may import
// more.
var homes = []struct{ module, pkgs, why string }{
	{"go.yaml.in/yaml/v4", "internal/yaml", "the library can be swapped in one place, and every YAML we read gets the same limits"},
	{"github.com/spf13/cobra", "cli", "flags are a matter of the command line"},
	{"github.com/spf13/pflag", "cli", "flags are a matter of the command line"},
	{"golang.org/x/term", "cli", "only the command line has a terminal"},
	{"github.com/google/jsonschema-go", "agent mcp/host mcp/server internal/schemaof", "final answers are checked where they are asked for, and results are described where they are served; other code passes schemas as JSON"},
	{"github.com/modelcontextprotocol/go-sdk", "mcp/server mcp/host", "one protocol library, behind what we serve and what we call"},
	{"github.com/gofrs/flock", "internal/lockfile", "one writer at a time means the same for a run folder and for a state file"},
	{"github.com/coder/websocket", "browser browser/page", "only a browser is spoken to by WebSocket"},
	{"golang.org/x/sys", "internal/confine internal/peeruser internal/typeahead sandbox/native sandbox/gvisor sandbox/quarantine sandbox/unconfined sandbox/internal/signals", "system calls are behind few doors: files, who connects, what was typed, and what programs run in"},
	{"github.com/fsnotify/fsnotify", "sandbox/quarantine", "only paths that no mount can protect are watched"},
	{"mvdan.cc/sh/v3", "internal/shell", "what a shell text does is read in one place, and what is not understood matches no rule"},
	{"github.com/yuin/goldmark", "scan", "a text is an instruction, a quotation, or code by its place in a document"},
	{"github.com/pelletier/go-toml/v2", "mcp/install", "a client's file is read as the client reads it"},
	{"oras.land/oras-go/v2", "install", "registries are read and written where skills are installed and published, behind the rules for downloads"},
	{"github.com/opencontainers", "install", "the types of what a registry stores"},
	{"golang.org/x/text", "internal/nfkc", "a name is spelled the same way wherever it is compared"},
	{"golang.org/x/net", "internal/pagetext", "pages of strangers are parsed in one place, which is fuzzed"},
	{"go.opentelemetry.io", "telemetry", "a run is the same whether anybody watches it or not"},
	{"google.golang.org/protobuf", "telemetry", "only what is sent to OpenTelemetry is written so"},
	{"aead.dev/minisign", "signature", "what counts as a valid signature is decided in one place"},
	{"github.com/hiddeco/sshsig", "signature", "what counts as a valid signature is decided in one place"},
	{"golang.org/x/crypto", "signature", "keys of SSH are only read where signatures are checked"},
	{"github.com/google/go-cmp", "", "for tests"},
	{"github.com/rogpeppe/go-internal", "skillmd/folder install", "its diff shows what a repair or an update changes; the rest of it is for tests"},
	{"pgregory.net/rapid", "", "for tests"},
}

// listed is a package as go list prints it, with paths relative to the module.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Standard,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = relative(p.ImportPath)
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 15 {
		t.Fatalf("go list names only %d packages", len(pkgs))
	}
	return pkgs
}

// relative turns paths of this module into its folders, and the root into "."; other
// paths stay.
func relative(p string) string {
	if p == testenv.ModulePath {
		return "."
	}
	return strings.TrimPrefix(p, testenv.ModulePath+"/")
}

// fits reports whether pkg is path or, for "x/", below x.
func fits(pkg, path string) bool {
	return pkg == path || strings.HasSuffix(path, "/") && strings.HasPrefix(pkg, path)
}

func layerOf(pkg string) (found layer, ok bool) {
	best := -1
	for _, l := range layers {
		for _, p := range l.paths {
			if fits(pkg, p) && len(p) > best {
				best, found, ok = len(p), l, true
			}
		}
	}
	return found, ok
}

// forTests reports whether only tests import a package: the conformance
// packages next to their ports, with the programs they run, and the checks of
// the repository.
func forTests(pkg string) bool {
	return pkg == "internal/repocheck" || pkg == "internal/testenv" || strings.HasSuffix(pkg, "test") || strings.Contains(pkg, "test/")
}

// broken explains what is wrong with pkg importing imp; "" means nothing.
func broken(pkg, imp string) string {
	from, ok := layerOf(pkg)
	if !ok && !forTests(pkg) {
		return pkg + " is in no layer: give it a place in layers_test.go, and say why"
	}
	if !strings.HasPrefix(imp, testenv.ModulePath+"/") && imp != testenv.ModulePath {
		return foreign(pkg, imp)
	}
	imp = relative(imp)
	to, ok := layerOf(imp)
	switch {
	case forTests(pkg):
		return "" // a conformance package may use real parts in tests
	case forTests(imp):
		return pkg + " imports " + imp + ", which is for tests"
	case !ok:
		return pkg + " imports " + imp + ", which is in no layer: give it a place in layers_test.go"
	case from.height == 0 && fits(imp, "internal/"):
		return ""
	case to.height > from.height:
		return pkg + " (" + from.name + ") imports " + imp + " (" + to.name + "), which is above it: " + from.why
	case to.height == from.height:
		return pkg + " imports its sibling " + imp + ": " + from.why
	}
	for _, f := range fences {
		if fits(pkg, f.pkg) && from.height == height(f.pkg) && f.own != nil && !slices.ContainsFunc(f.own, func(p string) bool { return fits(imp, p) }) {
			return pkg + " imports " + imp + ": " + f.why
		}
	}
	return ""
}

// height returns the height of a fence's package, so that "model/" does not
// apply to deeper packages.
func height(path string) int {
	l, _ := layerOf(strings.TrimSuffix(path, "/") + map[bool]string{true: "/x"}[strings.HasSuffix(path, "/")])
	return l.height
}

// foreign checks an import from outside the module.
func foreign(pkg, imp string) string {
	std := !strings.Contains(strings.Split(imp, "/")[0], ".")
	for _, f := range fences {
		switch {
		case !fits(pkg, f.pkg) || forTests(pkg):
		case !std && f.std:
			return pkg + " imports " + imp + ", but stands on the standard library alone: " + f.why
		case std && f.pure != nil && !slices.Contains(f.pure, imp):
			return pkg + " imports " + imp + ": " + f.why
		}
	}
	if std || forTests(pkg) {
		if std && imp == "testing" && !forTests(pkg) {
			return pkg + " imports testing outside a test"
		}
		return ""
	}
	for _, h := range homes {
		if imp != h.module && !strings.HasPrefix(imp, h.module+"/") {
			continue
		}
		if !slices.Contains(strings.Fields(h.pkgs), pkg) {
			return pkg + " imports " + imp + ", which belongs to " + map[bool]string{true: "tests", false: h.pkgs}[h.pkgs == ""] + " alone: " + h.why
		}
		return ""
	}
	return pkg + " imports " + imp + ", a new dependency: name its one folder in layers_test.go and its reasons in docs/decisions"
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			if why := broken(p.ImportPath, imp); why != "" {
				t.Error(why)
			}
		}
	}
}

// Tests the check itself: what it rejects, what it accepts, and that it says why.
func TestDirectionIsUnderstood(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pkg, imp, want string // want: part of the reason; "" means allowed
	}{
		{"cli", "metier/agent", ""},
		{"agent", "metier", ""},
		{"agent", "metier/agent/step", ""},
		{"run", "metier/agent/step", ""},
		{".", "metier/settings", ""},
		{"model/openai", "metier/model/internal/wire", ""},
		{"source/local", "metier/internal/confine", ""},
		{"record/recordtest", "github.com/google/go-cmp/cmp", ""},
		{"internal/jsonl", "metier/internal/atomicfile", ""},
		{".", "metier/agent", "which is above it"},
		{"agent", "metier/filetool", "sibling"},
		{"source/local", "metier/source/embedded", "sibling"},
		{"model", "metier/policy", "sibling"},
		{"skillmd", "metier/settings", "which is above it"},
		{"internal/yaml", "metier", "which is above it"},
		{"model/openai", "metier/policy", "knows nothing of skills"},
		{"model/openai", "metier", "knows nothing of skills"},
		{"settings", "metier/skillmd", "settings are data"},
		{"agent/step", "metier/settings", "reads no clock"},
		{"agent/step", "time", "reads no clock"},
		{"policy", "golang.org/x/text/unicode/norm", "standard library alone"},
		{"filetool", "go.yaml.in/yaml/v4", "belongs to internal/yaml alone"},
		{"run", "github.com/google/go-cmp/cmp", "belongs to tests alone"},
		{"run", "metier/record/recordtest", "which is for tests"},
		{"run", "testing", "outside a test"},
		{"cli", "example.org/new", "a new dependency"},
		{"surprise", "fmt", "in no layer"},
	}
	for _, tt := range tests {
		imp := tt.imp
		if rel, ours := strings.CutPrefix(imp, "metier"); ours {
			imp = testenv.ModulePath + rel
		}
		got := broken(tt.pkg, imp)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s: got %q, want %q", tt.pkg, tt.imp, got, tt.want)
		}
	}
}

// Using metier as a library does not require using or updating its dependencies: no exported
// declaration names an external type. The only exception is for adding tools of the protocol
// library to a server, which uses that library anyway.
func TestNoForeignTypesInExportedDeclarations(t *testing.T) {
	t.Parallel()
	tree, err := repocheck.Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	const sdk = "mcp/server github.com/modelcontextprotocol/go-sdk/mcp."
	asked := map[string]bool{sdk + "ServerOptions": true, sdk + "Server": true}
	checked := 0
	for _, f := range tree.Go(func(p string) bool { return repocheck.IsGo(p) && !repocheck.IsTest(p) }) {
		if strings.HasPrefix(f.Dir, "internal/") || strings.HasPrefix(f.Dir, "cmd/") || strings.HasPrefix(f.Dir, "bench") || strings.HasPrefix(f.Dir, "conformance") {
			continue
		}
		for _, im := range f.Imports {
			path := strings.Trim(im.Path.Value, `"`)
			if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") || relative(path) != path {
				continue // the standard library, or ours
			}
			checked++
			name := f.Local(path)
			for _, d := range f.Decls {
				for _, at := range shown(d) {
					if s, ok := at.(*ast.SelectorExpr); ok && ast.IsExported(s.Sel.Name) {
						if x, ok := s.X.(*ast.Ident); ok && x.Name == name && !asked[f.Dir+" "+path+"."+s.Sel.Name] {
							t.Errorf("%s:%d: an exported declaration names %s.%s of %s", f.Path, f.Line(s.Pos()), x.Name, s.Sel.Name, path)
						}
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no import of another module was seen")
	}
}

// Every surface can call the engine: it does not depend on flags or a terminal, and the command
// line does not handle runs and sessions itself.
func TestEngineKnowsNoSurface(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "./engine").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, p := range []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"} {
		if slices.Contains(deps, p) {
			t.Errorf("engine depends on %s", p)
		}
	}
	if len(deps) < 100 {
		t.Errorf("only %d packages are named", len(deps))
	}
	tree, err := repocheck.Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range tree.Go(func(p string) bool {
		return strings.HasPrefix(p, "cli/") && repocheck.IsGo(p) && !repocheck.IsTest(p)
	}) {
		read++
		for _, own := range [][2]string{{"metier/agent", "Run"}, {"metier/run", "Create"}, {"metier", "Open"}} {
			for _, at := range f.Uses(own[0], own[1]) {
				t.Errorf("%s:%d: %s.%s is the engine's to call", f.Path, f.Line(at.Pos()), own[0], own[1])
			}
		}
	}
	if read < 30 {
		t.Errorf("only %d files of cli were read", read)
	}
}
