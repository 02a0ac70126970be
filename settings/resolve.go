package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"metier/internal/nearest"
)

// Layer is a source of values: a profile, a file, the flags.
type Layer struct {
	Name     string            // as people know it: "profile:keen", "/etc/metier/config.yaml", "--set"
	Operator bool              // whether it may widen; false for everything a repository or a skill can write
	Values   map[string]string // by the name of the setting
}

// Origin is a value and who set it.
type Origin struct {
	Value string `json:"value"`
	Layer string `json:"layer"`
}

// Origins maps every setting to its origin.
type Origins map[string]Origin

// Codes of an [Error].
const (
	CodeUnknown  = "setting_unknown"  // there is no such setting
	CodeValue    = "setting_value"    // the setting has no such value
	CodeWidened  = "setting_widened"  // a layer below the operator tried to widen
	CodeConflict = "setting_conflict" // two settings cannot have these values at once
	CodeProfile  = "profile_unknown"  // there is no such profile
)

// Error is one fault of one layer.
type Error struct {
	Code    string
	Layer   string
	Setting string
	Value   string // the value asked for
	From    string // setting_widened: the value it would have replaced
	Allowed string // what may be asked for instead
}

func (e *Error) Error() string {
	at := ""
	if e.Layer != "" {
		at = e.Layer + ": "
	}
	switch e.Code {
	case CodeUnknown:
		return fmt.Sprintf("%sthere is no setting %q%s", at, e.Setting, e.Allowed)
	case CodeWidened:
		return fmt.Sprintf("%s%s may not be changed from %q to %q here; allowed: %s", at, e.Setting, e.From, e.Value, e.Allowed)
	case CodeConflict:
		return fmt.Sprintf("%s%s: %q %s", at, e.Setting, e.Value, e.Allowed)
	case CodeProfile:
		return fmt.Sprintf("%sthere is no profile %q%s", at, e.Value, nearest.Hint(e.Value, Profiles()))
	}
	return fmt.Sprintf("%s%s: %q is not %s", at, e.Setting, e.Value, e.Allowed)
}

// Hint says how to find what may be asked for.
func (e *Error) Hint() string {
	const all = "see 'metier profile show' for every setting and its values"
	switch e.Code {
	case CodeProfile:
		return "profiles: " + e.Allowed + "; 'metier profile list' describes them"
	case CodeWidened:
		return "only the operator can widen a setting; " + all
	}
	return all
}

// Resolve lays the layers over profile default, first to last, operator layers before the others. A layer with Operator
// false may only move a setting to its narrow end. The error joins an [*Error] per fault, in the order of layers and
// names; then the settings are zero, never half resolved.
func Resolve(layers ...Layer) (Settings, Origins, error) {
	var s Settings
	origins := Origins{}
	var faults []error
	apply := func(l Layer) {
		for _, name := range slices.Sorted(maps.Keys(l.Values)) {
			if err := applyOne(&s, origins, l, name); err != nil {
				faults = append(faults, err)
			}
		}
	}
	base := mustProfile(DefaultProfile)
	base.Name = "builtin"
	apply(base)
	for _, operator := range []bool{true, false} {
		for _, l := range layers {
			if l.Operator == operator {
				apply(l)
			}
		}
		if operator {
			s.Operator = Operator{Discover: s.Discover, Parse: s.Parse}
		}
	}
	faults = append(faults, conflicts(&s, origins)...)
	if len(faults) > 0 {
		return Settings{}, nil, errors.Join(faults...)
	}
	return s, origins, nil
}

func applyOne(s *Settings, origins Origins, l Layer, name string) error {
	r, ok := find(name)
	if !ok {
		return &Error{Code: CodeUnknown, Layer: l.Name, Setting: name, Allowed: didYouMean(name)}
	}
	was := r.get(s)
	next := *s
	if err := r.set(&next, strings.TrimSpace(l.Values[name])); err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Layer = l.Name
		}
		return err
	}
	now := r.get(&next)
	if !l.Operator {
		if !r.Narrows(was, now) {
			return &Error{Code: CodeWidened, Layer: l.Name, Setting: name, Value: now, From: was, Allowed: r.narrowings(was)}
		}
		if now == was {
			return nil
		}
	}
	*s = next
	origins[name] = Origin{Value: now, Layer: l.Name}
	return nil
}

// narrowings names the values to which a layer below the operator may move from one.
func (r Row) narrowings(from string) string {
	switch r.Shape {
	case ShapeSet:
		switch {
		case from == r.Empty || r.Fixed:
			return from
		case r.Name == "script_runtimes":
			return from + ", or " + r.Empty
		case r.Name == "roots":
			return from + ", without the workspace's own"
		}
		return "any part of " + from + ", or " + r.Empty
	case ShapeNumber:
		if from == "0" {
			return r.Values[0]
		}
		return "at most " + from
	case ShapeName:
		if from == noTool {
			return from
		}
		return from + " or " + noTool
	case ShapeOrder:
		return from
	}
	var ok []string
	for _, v := range r.Values {
		if r.Narrows(from, v) {
			ok = append(ok, v)
		}
	}
	return strings.Join(ok, ", ")
}

// conflicts checks what no row can check alone, and lowers read_default to read_max.
func conflicts(s *Settings, origins Origins) []error {
	if s.Read.Default > s.Read.Max {
		s.Read.Default = s.Read.Max
		origins["read_default"] = Origin{Value: fmt.Sprint(s.Read.Max), Layer: origins["read_max"].Layer + " (read_max)"}
	}
	var faults []error
	// Providers do not take dots, so names that differ only there are one name to the model.
	wire := strings.NewReplacer(".", "_")
	taken := map[string]string{}
	for _, t := range []string{ToolReadFile, ToolListFiles, ToolSearchFiles, ToolWriteFile, ToolEditFile, ToolBash, ToolWebFetch,
		ToolLoadContent, ToolDelegateTask, ToolDescribeHandle} {
		taken[t] = "the tool of that name"
	}
	for _, t := range []struct{ setting, name string }{{"tool_load", s.Tools.Load}, {"tool_resource", s.Tools.Resource},
		{"tool_script", s.Tools.Script}, {"tool_list", s.Tools.List}, {"tool_search", s.Tools.Search}} {
		if t.name == "" {
			continue
		}
		key := strings.ToLower(wire.Replace(t.name))
		if by, ok := taken[key]; ok {
			faults = append(faults, &Error{Code: CodeConflict, Layer: origins[t.setting].Layer, Setting: t.setting, Value: t.name,
				Allowed: "is taken by " + by + "; choose another name or none"})
			continue
		}
		taken[key] = t.setting
	}
	return faults
}

// Change is a setting that differs between two resolved settings.
type Change struct{ Name, A, B string }

// Diff returns what differs, in the order of the table.
func Diff(a, b Settings) []Change {
	var d []Change
	for _, r := range rows() {
		if x, y := r.get(&a), r.get(&b); x != y {
			d = append(d, Change{r.Name, x, y})
		}
	}
	return d
}

// SnapshotVersion is the version of what Snapshot writes.
const SnapshotVersion = 1

// Snapshot returns the settings as one JSON object, the same bytes for the same settings: the version, and for every
// setting in the order of the table its name, value and the layer that set it.
func Snapshot(s Settings, origins Origins) json.RawMessage {
	type entry struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		Layer string `json:"layer"`
	}
	out := struct {
		Version  int     `json:"version"`
		Settings []entry `json:"settings"`
	}{Version: SnapshotVersion}
	for _, r := range rows() {
		out.Settings = append(out.Settings, entry{r.Name, r.get(&s), origins[r.Name].Layer})
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("settings: " + err.Error()) // strings and numbers always marshal
	}
	return b
}

// didYouMean names the settings nearest to a misspelt one.
func didYouMean(name string) string {
	var among []string
	for _, r := range rows() {
		among = append(among, r.Name)
	}
	clean := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return cmp.Or(nearest.Hint(clean, among), "; 'metier profile show' lists all")
}
