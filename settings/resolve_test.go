package settings_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/settings"
)

func layer(name string, operator bool, kv ...string) settings.Layer {
	l := settings.Layer{Name: name, Operator: operator, Values: map[string]string{}}
	for i := 0; i < len(kv); i += 2 {
		l.Values[kv[i]] = kv[i+1]
	}
	return l
}

// extremes returns the narrowest and the widest value of a row.
func extremes(r settings.Row) (narrow, wide string) {
	switch r.Shape {
	case settings.ShapeSet:
		return r.Empty, strings.Join(r.Values, ", ")
	case settings.ShapeOrder:
		return r.Values[0], r.Values[0] + ", " + r.Values[1]
	case settings.ShapeNumber:
		low, high, _ := strings.Cut(r.Values[0], " to ")
		if strings.HasPrefix(r.Name, "catalog_") {
			return "1", "0"
		}
		return low, high
	case settings.ShapeName:
		return "none", "x." + r.Name
	}
	return r.Values[0], r.Values[len(r.Values)-1]
}

func code(err error) string {
	var e *settings.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestALayerBelowTheOperatorOnlyNarrows(t *testing.T) {
	t.Parallel()
	for _, r := range settings.Table() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			narrow, wide := extremes(r)
			_, _, err := settings.Resolve(layer("op", true, r.Name, narrow), layer("project metier.yaml", false, r.Name, wide))
			switch {
			case r.Free && err != nil:
				t.Errorf("free, but refused: %v", err)
			case !r.Free && code(err) != settings.CodeWidened:
				t.Errorf("widened from %q to %q: %v", narrow, wide, err)
			}
			if !r.Free && err != nil {
				for _, want := range []string{"project metier.yaml", r.Name, strconv.Quote(narrow), strconv.Quote(wide), "allowed:"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not name %s", err, want)
					}
				}
			}
			if r.Name == "roots" { // only the workspace's own are left out
				narrow = "builtin, auto:org, auto:home, db"
			}
			s, origins, err := settings.Resolve(layer("op", true, r.Name, wide), layer("project metier.yaml", false, r.Name, narrow))
			if r.Fixed {
				if diff := cmp.Diff(settings.CodeWidened, code(err)); diff != "" {
					t.Errorf("fixed, but set to %q (-want +got):\n%s", narrow, diff)
				}
				return
			}
			if r.Name == "allowed_tools" {
				narrow = "enforce"
			}
			if err != nil {
				t.Fatalf("narrowed from %q to %q: %v", wide, narrow, err)
			}
			if got := r.Get(&s); got != narrow || origins[r.Name] != (settings.Origin{Value: narrow, Layer: "project metier.yaml"}) {
				t.Errorf("got %q, origin %+v", got, origins[r.Name])
			}
		})
	}
}

func TestNarrowness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting, from, to string
		want              bool
	}{
		{"scan", "recursive", "children", true},
		{"scan", "children", "grouped", false},
		{"roots", "builtin, auto:org, auto:project, auto:home", "builtin, auto:org, auto:home", true},
		{"roots", "builtin, auto:project, harness", "builtin", true},
		{"roots", "builtin, auto:org, auto:project", "builtin, auto:project", false}, // would free the names of auto:org
		{"roots", "auto:project, auto:home", "auto:project", false},
		{"roots", "builtin, auto:project", "none", false},
		{"roots", "builtin", "builtin, auto:project", false},
		{"match", "casefold", "exact", false},           // would unprotect names that differ in case
		{"script_stage", "staged_tree", "stdin", false}, // would read the other files of the skill from the workspace
		{"script_cwd", "workspace", "skill", false},
		{"script_runtimes", "deno, node", "deno", false}, // would run scripts for node by deno
		{"script_runtimes", "deno, node", "none", true},
		{"identity", "name", "path", false},    // would rename what is denied by name
		{"identity", "folder", "equal", false}, // would free the name of a folder
		{"identity", "equal", "equal", true},
		{"protect_names", "no", "yes", false},                      // would take a name from the skill that precedence puts first
		{"activation", "load_tool, read_file", "load_tool", false}, // would read a skill's text without its restrictions
		{"resource_scope", "indexed", "one_level", false},          // would read files that were added later
		{"inherit", "all", "listed", false},                        // would free a subagent of the restrictions of skills
		{"host_cdp", "require", "forbid", false},
		{"paths", "sandbox", "none", false},
		{"tool_reply", "text", "plain", false},     // would remove the element around skill text
		{"drift_batch", "ignore", "reload", false}, // would use texts that changed
		{"drift_batch", "ignore", "warn", true},
		{"drift_batch", "warn", "fail", true},
		{"install", "local, zip", "off", true},
		{"install", "off", "local", false},
		{"read_max", "100", "99", true},
		{"read_max", "99", "100", false},
		{"catalog_max", "0", "50", true},
		{"catalog_max", "50", "0", false},
		{"catalog_max", "50", "51", false},
		{"resource_list", "5", "0", true},
		{"precedence", "db, roots", "db", false},
		{"tool_load", "load_skill", "none", true},
		{"tool_load", "load_skill", "bash", false},
		{"tool_load", "none", "load_skill", false},
		{"allowed_tools", "ignore", "narrow", true},
		{"allowed_tools", "narrow", "enforce+preapprove", false},
		{"allowed_tools", "enforce+preapprove", "ignore", false}, // would remove a refusal
		{"allowed_tools", "enforce+preapprove", "advise", false},
		{"allowed_tools", "enforce+preapprove", "enforce", true},
		{"allowed_tools", "ignore", "enforce+preapprove", false}, // would remove a question
		{"reload", "auto", "snapshot", true},
		{"empty_catalog", "silent", "say_none", true},
		{"enforcement_mode", "observe", "enforce-strict", true},
		{"enforcement_mode", "observe", "disabled", false},
	} {
		if got := row(t, c.setting).Narrows(c.from, c.to); got != c.want {
			t.Errorf("%s from %q to %q: %v, want %v", c.setting, c.from, c.to, got, c.want)
		}
	}
}

func TestLayersAreLaidInOrderOperatorsFirst(t *testing.T) {
	t.Parallel()
	keen, err := settings.Profile("keen")
	if err != nil {
		t.Fatal(err)
	}
	s, origins, err := settings.Resolve(
		layer("project metier.yaml", false, "drift_batch", "warn", "scan", "children"),
		keen,
		layer("/etc/metier/config.yaml", true, "scan", "recursive", "max_depth", "4"),
		layer("flag --set", true, "max_depth", " 3 "),
	)
	if err != nil {
		t.Fatal(err)
	}
	if s.Discover.Scan != settings.ScanChildren || s.Discover.MaxDepth != 3 || s.Activate.DriftBatch != settings.DriftWarn {
		t.Errorf("scan %s, max_depth %d, drift_batch %s", s.Discover.Scan, s.Discover.MaxDepth, s.Activate.DriftBatch)
	}
	for name, want := range map[string]string{"scan": "project metier.yaml", "max_depth": "flag --set", "paths": "profile:keen"} {
		if origins[name].Layer != want {
			t.Errorf("origin of %s is %s, want %s", name, origins[name].Layer, want)
		}
	}
}

func TestALayerThatChangesNothingIsNoOrigin(t *testing.T) {
	t.Parallel()
	_, origins, err := settings.Resolve(layer("project metier.yaml", false, "scan", "recursive"))
	if err != nil || origins["scan"].Layer != "builtin" {
		t.Fatalf("origin %+v, error %v", origins["scan"], err)
	}
}

func TestFaultsNameTheWayOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, setting, value, code string
		says                       []string
	}{
		{"misspelt", "catalog_fromat", "xml", settings.CodeUnknown, []string{"did you mean catalog_format?"}},
		{"written with hyphens", "catalog-format", "xml", settings.CodeUnknown, []string{"did you mean catalog_format?"}},
		{"unheard of", "zzzzzzzzzzzz", "1", settings.CodeUnknown, []string{"zzzzzzzzzzzz", "profile show"}},
		{"bad choice", "scan", "deep", settings.CodeValue, []string{`"deep"`, "children, recursive, grouped"}},
		{"bad member", "activation", "slash, telepathy", settings.CodeValue, []string{"session_start", "or none"}},
		{"member twice", "activation", "slash, slash", settings.CodeValue, []string{"slash, slash"}},
		{"empty text", "activation", "", settings.CodeValue, []string{"or none"}},
		{"empty order", "precedence", "", settings.CodeValue, []string{"an order of"}},
		{"no number", "max_depth", "many", settings.CodeValue, []string{"1 to 64"}},
		{"number out of range", "max_depth", "0", settings.CodeValue, []string{"1 to 64"}},
		{"huge number", "read_max", "99999999999999999999", settings.CodeValue, []string{"1 to"}},
		{"bad tool name", "tool_load", "load skill", settings.CodeValue, []string{"64 letters"}},
		{"shipped bug", "args", "keen_shipped", settings.CodeValue, []string{"keen_rfc"}},
		{"tool in no default set", "default_tools", "bash", settings.CodeValue, []string{"read_file"}},
		{"name of another tool", "tool_load", "Read.File", settings.CodeConflict, []string{"choose another name"}},
		{"name given twice", "tool_search", "load.skill", settings.CodeConflict, []string{"tool_load"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, origins, err := settings.Resolve(layer("flag --set", true, c.setting, c.value))
			if code(err) != c.code {
				t.Fatalf("error %v, want code %s", err, c.code)
			}
			for _, want := range append(c.says, "flag --set", c.setting) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if origins != nil || cmp.Diff(settings.Settings{}, s) != "" {
				t.Error("a fault left settings behind")
			}
		})
	}
}

func TestAllFaultsAreReported(t *testing.T) {
	t.Parallel()
	_, _, err := settings.Resolve(layer("a", true, "scan", "x", "paths", "y"), layer("b", false, "nope_nope_nope", "z"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("want three faults, got %v", err)
	}
}

func TestReadDefaultFollowsReadMaxDown(t *testing.T) {
	t.Parallel()
	s, origins, err := settings.Resolve(layer("project metier.yaml", false, "read_max", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Origin{Value: "1000", Layer: "project metier.yaml (read_max)"}
	if s.Read.Default != 1000 || origins["read_default"] != want {
		t.Errorf("read_default %d, origin %+v", s.Read.Default, origins["read_default"])
	}
}

func TestSetsAreKeptInTheOrderOfTheTable(t *testing.T) {
	t.Parallel()
	s, origins, err := settings.Resolve(layer("flag", true, "activation", "slash,preload", "script_runtimes", "none"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(settings.Set[settings.Way]{settings.WayPreload, settings.WaySlash}, s.Activate.Ways); d != "" {
		t.Error(d)
	}
	if origins["activation"].Value != "preload, slash" || len(s.Exec.Runtimes) != 0 || s.Exec.Runtimes.Has(settings.RuntimeBash) {
		t.Errorf("origin %+v, runtimes %v", origins["activation"], s.Exec.Runtimes)
	}
}

func TestResolve_PlusAddsToASet(t *testing.T) {
	t.Parallel()
	s, origins, err := settings.Resolve(layer("flag", true, "root_families", "+cursor, agents"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(settings.Set[settings.Family]{"agents", "claude", "cursor"}, s.Discover.Families); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("agents, claude, cursor", origins["root_families"].Value); d != "" {
		t.Error(d)
	}
	if _, _, err := settings.Resolve(layer("metier.yaml", false, "root_families", "+cursor")); err == nil {
		t.Error("a workspace added an agent")
	}
	if _, _, err := settings.Resolve(layer("flag", true, "root_families", "+")); err == nil {
		t.Error("a + without a value was accepted")
	}
}

func TestSnapshotAndDiff(t *testing.T) {
	t.Parallel()
	keen, err := settings.Profile("keen")
	if err != nil {
		t.Fatal(err)
	}
	a, originsA, _ := settings.Resolve(keen)
	b, originsB, _ := settings.Resolve(keen, layer("flag", true, "scan", "recursive"))
	first, second := settings.Snapshot(a, originsA), settings.Snapshot(a, originsA)
	if string(first) != string(second) {
		t.Error("two snapshots of the same settings differ")
	}
	var got struct {
		Version  int
		Settings []struct{ Name, Value, Layer string }
	}
	if err := json.Unmarshal(settings.Snapshot(b, originsB), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != settings.SnapshotVersion || len(got.Settings) != len(settings.Table()) {
		t.Errorf("version %d, %d settings", got.Version, len(got.Settings))
	}
	for i, r := range settings.Table() {
		if got.Settings[i].Name != r.Name || got.Settings[i].Value != r.Get(&b) || got.Settings[i].Layer == "" {
			t.Errorf("entry %d is %+v, want %s", i, got.Settings[i], r.Name)
		}
	}
	if d := cmp.Diff([]settings.Change{{Name: "scan", A: "children", B: "recursive"}}, settings.Diff(a, b)); d != "" {
		t.Error(d)
	}
}
