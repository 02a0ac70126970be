package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Shape says how the value of a setting is written.
type Shape string

// The shapes. Values of every shape are text; the parts of lists are separated by commas.
const (
	ShapeChoice Shape = "choice" // one of Values
	ShapeSet    Shape = "set"    // any of Values, or Empty
	ShapeOrder  Shape = "order"  // some of Values, in an order that counts
	ShapeNumber Shape = "number" // a whole number in the range that Values[0] gives
	ShapeName   Shape = "name"   // a tool name, or none
)

// Row describes one setting. The table is the only list of settings: help, documentation and Resolve read it.
type Row struct {
	Name    string            // as in files and flags: catalog_format
	Stage   string            // the struct it belongs to, in lower case: catalog
	Doc     string            // what it decides
	Shape   Shape             // how its value is written
	Values  []string          // the closed set, narrowest first
	Meaning map[string]string // what each value means, where the value does not say so itself
	Empty   string            // the value of the empty set, for ShapeSet
	Free    bool              // cosmetic: any layer may choose any value
	Fixed   bool              // no layer below the operator changes it: none of its values is narrower than another
	Later   bool              // nothing acts on it yet: what it decides is not built
	Default string            // its value in profile default

	get      func(*Settings) string
	set      func(*Settings, string) error
	narrower func(from, to string) bool // whether a layer below the operator may move from one valid value to another
}

// Get returns the value of the setting in s, in canonical form: Set with it changes nothing.
func (r Row) Get(s *Settings) string { return r.get(s) }

// Set gives the setting in s a value. The error names the values there are.
func (r Row) Set(s *Settings, value string) error { return r.set(s, value) }

// Narrows reports whether a layer below the operator may move the setting between two valid values in canonical form.
func (r Row) Narrows(from, to string) bool {
	return r.Free || from == to || !r.Fixed && r.narrower(from, to)
}

// allowed names the values of the row for an error.
func (r Row) allowed() string {
	switch r.Shape {
	case ShapeSet:
		return "any of " + strings.Join(r.Values, ", ") + "; or " + r.Empty + "; a leading + adds to the current value"
	case ShapeOrder:
		return "an order of " + strings.Join(r.Values, ", ")
	case ShapeNumber:
		return "a whole number, " + r.Values[0]
	case ShapeName:
		return "none, or a tool name of at most 64 letters, digits, '.', '_' and '-'"
	}
	return "one of " + strings.Join(r.Values, ", ")
}

// rows is the table without its Default column, in the order of the flow. It is shared: do not change it.
var rows = sync.OnceValue(func() []Row {
	var all []Row
	for _, stage := range []struct {
		name string
		rows func() []Row
	}{
		{"discover", discoverRows},
		{"parse", parseRows},
		{"names", namesRows},
		{"catalog", catalogRows},
		{"activate", activateRows},
		{"read", readRows},
		{"tools", toolsRows},
		{"exec", execRows},
		{"policy", policyRows},
		{"harness", harnessRows},
		{"agent", agentRows},
		{"chat", chatRows},
		{"install", installRows},
	} {
		for _, r := range stage.rows() {
			r.Stage = stage.name
			all = append(all, r)
		}
	}
	return all
})

// Table returns every setting, in the order of the flow.
func Table() []Row {
	var s Settings
	l := mustProfile(DefaultProfile)
	all := slices.Clone(rows())
	for i, r := range all {
		if err := r.set(&s, l.Values[r.Name]); err != nil {
			panic("settings: profile default: " + err.Error())
		}
		all[i].Default = r.get(&s)
	}
	return all
}

func find(name string) (Row, bool) {
	for _, r := range rows() {
		if r.Name == name {
			return r, true
		}
	}
	return Row{}, false
}

type value[T ~string] struct {
	token   T
	meaning string
}

func (r *Row) takes(token, meaning string) {
	r.Values = append(r.Values, token)
	if r.Meaning == nil {
		r.Meaning = map[string]string{}
	}
	r.Meaning[token] = meaning
}

func (r Row) bad(v string) error {
	return &Error{Code: CodeValue, Setting: r.Name, Value: v, Allowed: r.allowed()}
}

func choice[T ~string](name, doc string, at func(*Settings) *T, values []value[T]) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeChoice}
	for _, v := range values {
		r.takes(string(v.token), v.meaning)
	}
	known := r
	r.get = func(s *Settings) string { return string(*at(s)) }
	r.set = func(s *Settings, v string) error {
		if !slices.Contains(known.Values, v) {
			return known.bad(v)
		}
		*at(s) = T(v)
		return nil
	}
	r.narrower = func(from, to string) bool { return slices.Index(known.Values, to) <= slices.Index(known.Values, from) }
	return r
}

// preapproving is for the one choice whose last value both denies and spares a question: leaving it for a value that
// does not deny would widen.
func preapproving(r Row) Row {
	inner := r.narrower
	r.narrower = func(from, to string) bool {
		if from == string(AllowedToolsPreapprove) {
			return to == string(AllowedToolsEnforce) || to == string(AllowedToolsNarrow)
		}
		return inner(from, to)
	}
	return r
}

// fixed is for a choice without a narrow end. A skill that is named in
// another way is not the one that the operator denied or protected, and a script that starts elsewhere can read other
// files.
func fixed(r Row) Row {
	r.Fixed = true
	return r
}

// whole is for a set whose values also decide what the others do: below the operator it can only become empty. Without
// its interpreter, a script would start with another one.
func whole(r Row) Row {
	r.narrower = func(from, to string) bool { return from == to || to == r.Empty }
	return r
}

// keeping is for a set of which a layer below the operator may leave out the named values only. A workspace leaves out
// its own skills, and no others: their names would be free for its own.
func keeping(r Row, but ...string) Row {
	inner := r.narrower
	r.narrower = func(from, to string) bool {
		is := elements(to)
		lost := slices.DeleteFunc(elements(from), func(v string) bool { return slices.Contains(is, v) || slices.Contains(but, v) })
		return inner(from, to) && len(lost) == 0
	}
	return r
}

// only is for a choice whose values are not each narrower than the next: a layer below the operator may choose the named
// ones, and of these only one that comes first.
func only(r Row, values ...string) Row {
	inner := r.narrower
	r.narrower = func(from, to string) bool { return slices.Contains(values, to) && inner(from, to) }
	return r
}

func elements(set string) (out []string) {
	for v := range strings.SplitSeq(set, ",") {
		out = append(out, strings.TrimSpace(v))
	}
	return out
}

// adding is for the one choice whose values each read other files: below the operator it may only move to a value that
// reads all that was read before.
func adding(r Row) Row {
	r.narrower = func(from, to string) bool {
		return from == to || from == string(StateStoreNone) || from == string(StateStoreUser) && to == string(StateStoreProject)
	}
	return r
}

func free(r Row) Row {
	r.Free = true
	return r
}

// parts splits a list into distinct known tokens.
func (r Row) parts(v string) ([]string, error) {
	if v == r.Empty && r.Shape == ShapeSet {
		return nil, nil
	}
	var got []string
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		if !slices.Contains(r.Values, part) || slices.Contains(got, part) {
			return nil, r.bad(v)
		}
		got = append(got, part)
	}
	return got, nil
}

func subset(r Row, set func(*Settings, []string), get func(*Settings) []string) Row {
	known := r
	r.get = func(s *Settings) string {
		if got := get(s); len(got) > 0 {
			return strings.Join(got, ", ")
		}
		return known.Empty
	}
	r.set = func(s *Settings, v string) error {
		added, adds := strings.CutPrefix(v, "+")
		got, err := known.parts(added)
		if err != nil {
			return known.bad(v)
		}
		if adds {
			for _, was := range get(s) {
				if !slices.Contains(got, was) {
					got = append(got, was)
				}
			}
		}
		slices.SortFunc(got, func(a, b string) int { return slices.Index(known.Values, a) - slices.Index(known.Values, b) })
		set(s, got)
		return nil
	}
	r.narrower = func(from, to string) bool {
		wide, _ := known.parts(from)
		slim, err := known.parts(to)
		return err == nil && !slices.ContainsFunc(slim, func(v string) bool { return !slices.Contains(wide, v) })
	}
	return r
}

func set[T ~string](name, doc, empty string, at func(*Settings) *Set[T], values []value[T]) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeSet, Empty: empty}
	for _, v := range values {
		r.takes(string(v.token), v.meaning)
	}
	return subset(r, func(s *Settings, got []string) {
		*at(s) = make(Set[T], len(got))
		for i, v := range got {
			(*at(s))[i] = T(v)
		}
	}, func(s *Settings) []string {
		got := make([]string, len(*at(s)))
		for i, v := range *at(s) {
			got[i] = string(v)
		}
		return got
	})
}

func names(name, doc string, at func(*Settings) *[]string, values []value[string]) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeSet, Empty: "none"}
	for _, v := range values {
		r.takes(v.token, v.meaning)
	}
	return subset(r, func(s *Settings, got []string) { *at(s) = got }, func(s *Settings) []string { return *at(s) })
}

// order is a list whose order counts.
func order(name, doc string, at func(*Settings) *[]string, values []value[string]) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeOrder, Fixed: true}
	for _, v := range values {
		r.takes(v.token, v.meaning)
	}
	known := r
	r.get = func(s *Settings) string { return strings.Join(*at(s), ", ") }
	r.set = func(s *Settings, v string) error {
		got, err := known.parts(v)
		if err != nil {
			return err
		}
		*at(s) = got
		return nil
	}
	return r
}

func number(name, doc string, at func(*Settings) *int, low, high int) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeNumber, Values: []string{fmt.Sprintf("%d to %d", low, high)}}
	known := r
	r.get = func(s *Settings) string { return strconv.Itoa(*at(s)) }
	r.set = func(s *Settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return known.bad(v)
		}
		*at(s) = n
		return nil
	}
	r.narrower = func(from, to string) bool { return atoi(to) <= atoi(from) }
	return r
}

// budgeted is a number whose 0 stands for the most.
func budgeted(name, doc string, at func(*Settings) *int, high int) Row {
	r := number(name, doc, at, 0, high)
	r.narrower = func(from, to string) bool { return from == "0" || to != "0" && atoi(to) <= atoi(from) }
	return r
}

// atoi reads a number that set has checked.
func atoi(v string) int {
	n, _ := strconv.Atoi(v)
	return n
}

var toolNames = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

const noTool = "none"

func toolName(name, doc string, at func(*Settings) *string) Row {
	r := Row{Name: name, Doc: doc, Shape: ShapeName, Values: []string{noTool, "a tool name"},
		Meaning: map[string]string{noTool: "the tool does not exist"}}
	known := r
	r.get = func(s *Settings) string {
		if *at(s) == "" {
			return noTool
		}
		return *at(s)
	}
	r.set = func(s *Settings, v string) error {
		if !toolNames.MatchString(v) {
			return known.bad(v)
		}
		if v == noTool {
			v = ""
		}
		*at(s) = v
		return nil
	}
	r.narrower = func(_, to string) bool { return to == noTool }
	return r
}

var kinds = []value[string]{
	{KindRoots, "the order in which the roots are listed"},
	{KindDB, "skills stored per project"},
	{KindProject, "the project tier"},
	{KindUser, "the user tier"},
	{KindOrg, "the org tier"},
	{KindBuiltin, "the builtin tier"},
	{KindThirdParty, "the third_party tier"},
}

var defaultable = []value[string]{
	{ToolReadFile, "read a file"},
	{ToolListFiles, "list a folder"},
	{ToolSearchFiles, "search files"},
	{ToolLoadSkill, "load a skill"},
	{ToolReadSkillResource, "read a skill's resource"},
	{ToolListSkills, "list skills, if the catalog omits some"},
	{ToolSearchSkills, "search skills, if the catalog omits some"},
	{ToolWriteFile, "write a file"},
	{ToolEditFile, "edit a file"},
	{ToolDelegateTask, "start a subagent with no more permissions than the run itself"},
}
