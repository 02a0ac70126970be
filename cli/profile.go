package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier/config"
	"metier/settings"
)

func (a *app) profileCommand() *cobra.Command {
	c := &cobra.Command{Use: "profile", GroupID: "setup", Short: "List, show, and compare settings profiles",
		Long: "A profile is a saved set of values, one for each setting. docs/SETTINGS.md\ndescribes every value.", Args: cobra.NoArgs,
		RunE: a.help}
	c.AddCommand(a.profileListCommand(), a.profileShowCommand(), a.profileDiffCommand())
	return c
}

func (a *app) profileListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the profiles", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		type entry struct {
			Name    string `json:"name"`
			About   string `json:"about"`
			Differs int    `json:"differs"` // settings that are not those of the first profile
		}
		base, err := profileSettings(settings.DefaultProfile)
		if err != nil {
			return err
		}
		list := []entry{}
		for _, n := range settings.Profiles() {
			s, err := profileSettings(n)
			if err != nil {
				return err
			}
			list = append(list, entry{n, settings.About(n), len(settings.Diff(base, s))})
		}
		if a.json {
			return a.document(map[string]any{"profiles": list})
		}
		t := table{heads: []string{"PROFILE", "DIFFERS", "DESCRIPTION"}, right: []int{1}}
		for _, e := range list {
			t.add(e.Name, fmt.Sprint(e.Differs), e.About)
		}
		t.print(a.Out, "")
		return nil
	}}
}

// profileSettings returns the settings of a profile as saved.
func profileSettings(name string) (settings.Settings, error) {
	l, err := settings.Profile(name)
	if err != nil {
		return settings.Settings{}, err
	}
	s, _, err := settings.Resolve(l)
	return s, err
}

// shown is one setting of `profile show`.
type shown struct {
	Name   string   `json:"name"`
	Stage  string   `json:"stage"`
	Value  string   `json:"value"`
	SetBy  string   `json:"setBy"`
	Shape  string   `json:"shape"`
	Values []string `json:"values"` // the closed set, narrowest first
	Doc    string   `json:"doc"`
	Later  bool     `json:"later,omitempty"` // nothing acts on it yet
}

func (a *app) profileShowCommand() *cobra.Command {
	var workspace string
	var set []string
	c := &cobra.Command{Use: "show [PROFILE]", Short: "Print each setting with its value, origin, and possible values",
		Long: `Show prints the settings that a run in this folder would use. They come from the
profile, the operator's configuration, --set, and the workspace's metier.yaml, in
that order. metier.yaml can only narrow them. The profile is the argument or, if
there is none, METIER_PROFILE, the profile in the configuration, or default.
In a terminal, possible values are truncated to fit the width. --json prints all of
them.`,
		Example: "  metier profile show\n  metier profile show keen --set reload=snapshot\n  metier profile show --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			op, err := config.Load(a.env)
			if err != nil {
				return err
			}
			ws, err := a.engine().Enter(c.Context(), workspace)
			if err != nil {
				return err
			}
			flags, err := setFlag(set)
			if err != nil {
				return err
			}
			_, origins, _, err := op.Resolve(a.env, name, ws, flags)
			if err != nil {
				return err
			}
			if name == "" {
				name, _ = op.DefaultProfile(a.env)
			}
			return a.showProfile(name, origins)
		}}
	c.Flags().StringVar(&workspace, "workspace", "", "`folder` whose metier.yaml applies (default: the current one)")
	c.Flags().StringArrayVar(&set, "set", nil, "change a setting: `name=value` (repeatable)")
	a.completions(c)
	return c
}

func (a *app) showProfile(name string, origins settings.Origins) error {
	list := []shown{}
	for _, r := range settings.Table() {
		o := origins[r.Name]
		list = append(list, shown{r.Name, r.Stage, o.Value, o.Layer, string(r.Shape), allValues(r), r.Doc, r.Later})
	}
	if a.json {
		return a.document(map[string]any{"profile": name, "settings": list})
	}
	fmt.Fprintf(a.Out, "profile %s\n", printable(name))
	t := table{width: a.columns()}
	for i, s := range list {
		if i == 0 || list[i-1].Stage != s.Stage {
			t.add()
			t.add(s.Stage)
		}
		may := choices(s)
		if s.Later {
			may += " (no effect yet)"
		}
		if t.width == 0 {
			t.add("  "+s.Name, s.Value, s.SetBy, may)
		} else {
			by := s.SetBy
			switch {
			case by == "profile:"+name:
				by = "profile" // the first line has its name
			case filepath.IsAbs(by):
				by = filepath.Join("…", filepath.Base(by))
			}
			t.addWrapped(1, min(widest, t.width/3), "  "+s.Name, s.Value, cutTo(oneLine(by), widest), may)
		}
	}
	t.print(a.Out, "")
	return nil
}

func allValues(r settings.Row) []string {
	out := slices.Clone(r.Values)
	if r.Empty != "" && !slices.Contains(out, r.Empty) {
		out = append([]string{r.Empty}, out...)
	}
	return out
}

// choices describes the permitted values.
func choices(s shown) string {
	switch settings.Shape(s.Shape) {
	case settings.ShapeSet:
		return "any of " + strings.Join(s.Values, " | ")
	case settings.ShapeOrder:
		return "an order of " + strings.Join(s.Values, " | ")
	case settings.ShapeName:
		return "none | a tool name"
	}
	return strings.Join(s.Values, " | ")
}

// widest is the longest value that fits into a column of `profile diff`. Longer values get separate
// lines.
const widest = 32

func (a *app) profileDiffCommand() *cobra.Command {
	c := &cobra.Command{Use: "diff [A] B", Short: "Print the settings that differ between two profiles",
		Long:    "Diff prints the settings that differ between two profiles. If A is omitted, it\ncompares B with the profile named default.",
		Example: "  metier profile diff cf-harness\n  metier profile diff keen cf-harness", Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, errors.New("profile diff needs one or two profile names"))
			}
			return cobra.MaximumNArgs(2)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				args = []string{"default", args[0]}
			}
			x, err := profileSettings(args[0])
			if err != nil {
				return err
			}
			y, err := profileSettings(args[1])
			if err != nil {
				return err
			}
			type change struct {
				Name string `json:"name"`
				A    string `json:"a"`
				B    string `json:"b"`
			}
			list := []change{}
			t := table{heads: []string{"SETTING", args[0], args[1]}}
			long := table{}
			for _, d := range settings.Diff(x, y) {
				list = append(list, change{d.Name, d.A, d.B})
				if len(d.A) > widest || len(d.B) > widest {
					long.add(d.Name, args[0], d.A)
					long.add("", args[1], d.B)
					continue
				}
				t.add(d.Name, d.A, d.B)
			}
			if a.json {
				return a.document(map[string]any{"a": args[0], "b": args[1], "changes": list})
			}
			if len(list) == 0 {
				_, err := fmt.Fprintf(a.Out, "%s and %s have the same settings\n", args[0], args[1])
				return err
			}
			t.print(a.Out, "")
			if len(long.rows) > 0 {
				fmt.Fprintln(a.Out)
				long.print(a.Out, "")
			}
			return nil
		}}
	a.completions(c)
	return c
}

// setFlag reads --set name=value flags.
func setFlag(pairs []string) (settings.Layer, error) {
	l := settings.Layer{Name: "flag --set", Operator: true, Values: map[string]string{}}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return l, wrong("usage", "use --set name=value; 'metier profile show' lists the names", "--set %q has no name or no value", p)
		}
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if more, adds := strings.CutPrefix(v, "+"); adds && l.Values[k] != "" {
			v = l.Values[k] + ", " + more
		}
		l.Values[k] = v
	}
	return l, nil
}
