package metier_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/settings"
)

// keenFiles is a project with one skill that has files.
func keenFiles() map[string]string {
	return map[string]string{
		"skills/demo/SKILL.md":          "---\ndescription: Does the demo.\n---\nRun scripts/helper.sh, read references/a.md.\n",
		"skills/demo/references/a.md":   "canary-reference\n",
		"skills/demo/scripts/helper.sh": "echo canary-helper\n",
		"skills/other/SKILL.md":         skillFile("other", "Other.\n"),
	}
}

// shownPath returns the path that the catalog shows for a skill, as a model
// would find it.
func shownPath(t *testing.T, catalog, skill string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^- ` + skill + `: .* → read (.+)$`).FindStringSubmatch(catalog)
	if m == nil {
		t.Fatalf("no path for %s in:\n%s", skill, catalog)
	}
	return m[1]
}

// req: B-020
func TestReadingSkillMDActivates(t *testing.T) {
	t.Parallel()
	w := opened(t, keen, keenFiles())
	text := w.works("read_file", args{"path": w.at("skills/demo/SKILL.md")}).Text()
	mentions(t, text, keenFiles()["skills/demo/SKILL.md"])
	w.put("skills/demo/references/SKILL.md", skillFile("inner", "canary-inner\n"))
	mentions(t, w.works("read_file", args{"path": w.at("skills/demo/references/SKILL.md")}).Text(), "canary-inner")
	if e := one[event.SkillActivated](w); e.Name != "demo" || e.ActivationSource != "model-tool" || w.blob(e.Text) != text {
		t.Errorf("record: %+v", e)
	}
}

// However a skill is invoked, and whether or not it was before, the text is the current content of
// the file.
//
// req: B-007
func TestEachInvocationGivesTheTextOfThatMoment(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		w := newFixture(t, keen, keenFiles())
		w.config = func(c *metier.Config) { c.Batch = batch }
		w.open()
		read := func() string { return w.works("read_file", args{"path": w.at("skills/demo/SKILL.md")}).Text() }
		typed := func() string {
			a, err := w.Activate(t.Context(), "demo", "user-explicit")
			if err != nil {
				t.Fatal(err)
			}
			return w.blob(a.Text)
		}
		for i, invoke := range []func() string{read, read, typed, typed, read} {
			now, before := fmt.Sprintf("text %d.", i), fmt.Sprintf("text %d.", i-1)
			w.put("skills/demo/SKILL.md", skillFile("demo", "This is "+now+"\n"))
			text := invoke()
			mentions(t, text, "This is "+now)
			silent(t, text, before)
		}
	}
}

// req: B-021, B-046
func TestBundledFilesAreReachedFromTheFolder(t *testing.T) {
	t.Parallel()
	files := keenFiles()
	files["skills/demo/references/deep/b.md"] = "canary-deep"
	w := opened(t, keen, files)
	text := w.works("read_file", args{"path": w.at("skills/demo/SKILL.md")}).Text()
	m := regexp.MustCompile(`Skill directory: (.+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal(text)
	}
	mentions(t, w.works("read_file", args{"path": m[1] + "/references/a.md"}).Text(), "canary-reference")
	mentions(t, w.works("read_file", args{"path": m[1] + "/scripts/helper.sh"}).Text(), "canary-helper")
	mentions(t, w.works("read_file", args{"path": m[1] + "/references/deep/b.md"}).Text(), "canary-deep")
	reads := events[event.ResourceRead](w)
	if len(reads) != 3 || reads[0].Path != "references/a.md" || reads[1].Path != "scripts/helper.sh" || reads[2].Path != "references/deep/b.md" || reads[1].Status != "read" {
		t.Errorf("records: %+v", reads)
	}
}

// req: B-022, B-042
func TestCatalogAloneLeadsToTheSkill(t *testing.T) {
	t.Parallel()
	long := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "demo", "other"} {
		long["skills/"+name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: " + strings.Repeat("Long text. ", 90) + "\n---\n"
	}
	w := newFixture(t, keen, long)
	bare := w.open().Catalog(t.Context())
	for w.set.Catalog.Budget = bare.Tokens; bare.Rung != "names" && w.set.Catalog.Budget > 0; w.set.Catalog.Budget -= 10 {
		bare = w.open().Catalog(t.Context())
	}
	for _, name := range []string{"demo", "other"} {
		mentions(t, bare.Text, "\n- "+name+" → read "+w.at("skills/"+name+"/SKILL.md"))
	}
	w = opened(t, keen, keenFiles())
	cat := w.Catalog(t.Context())
	if !cat.InSystem() {
		t.Fatalf("%+v", cat)
	}
	for name, description := range map[string]string{"demo": "Does the demo.", "other": "Use when testing other."} {
		mentions(t, cat.Text, "- "+name+": "+description) // which the model uses to choose
		p := shownPath(t, cat.Text, name)
		if p != w.at("skills/"+name+"/SKILL.md") {
			t.Errorf("%s is said to be at %s", name, p)
		}
		w.works("read_file", args{"path": p})
		if e := last[event.SkillActivated](w); e.Name != name {
			t.Errorf("%s activated %s", p, e.Name)
		}
	}
}

// req: B-043
func TestCatalogSaysHowPathsResolve(t *testing.T) {
	t.Parallel()
	w := opened(t, keen, keenFiles())
	flat := strings.Join(strings.Fields(w.Catalog(t.Context()).Text), " ")
	mentions(t, flat, "Resolve relative paths in a skill against the directory that holds its SKILL.md")
}

// invoked returns a skill's body with its arguments, through a session.
func invoked(t *testing.T, dialect settings.Args, body string, arguments ...string) string {
	t.Helper()
	w := newFixture(t, keen, map[string]string{"skills/demo/SKILL.md": skillFile("demo", "<<"+body+">>\n")})
	w.set.Activate.Args = dialect
	w.open()
	_, text := w.activate("demo", arguments...)
	if len(w.State().Active) != 1 {
		t.Fatal("not active")
	}
	_, rest, _ := strings.Cut(text, "<<")
	out, after, _ := strings.Cut(rest, ">>")
	_, tail, cut := strings.Cut(after, "ARGUMENTS: ")
	if cut {
		tail, _, _ = strings.Cut(tail, "\n")
		out += " and " + tail
	}
	return out
}

// req: B-026, B-027, B-030
func TestArgumentsByName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		args       []string
		want       string
	}{
		{"all", "$ARGUMENTS", []string{"foo", "bar"}, "foo bar"},
		{"all, with white space", "$ARGUMENTS", []string{" foo  bar", "", "a\nb"}, " foo  bar  a\nb"},
		{"all, twice", "$ARGUMENTS-$ARGUMENTS", []string{"foo", "bar"}, "foo bar-foo bar"},
		{"by index", "$ARGUMENTS[0],$ARGUMENTS[1],$ARGUMENTS[7]", []string{"foo", "bar"}, "foo,bar,"},
		{"by an index of two digits", "$ARGUMENTS[10]", strings.Split("abcdefghijk", ""), "k"},
		{"far beyond the last", "x=$ARGUMENTS[9999].", []string{"foo"}, "x=."},
		{"none", "x=$ARGUMENTS.", nil, "x=."},
		{"none by index", "x=$ARGUMENTS[0].", nil, "x=."},
		{"not an index", "$ARGUMENTS[x] $ARGUMENTS[-1] $ARGUMENTS[+1] $ARGUMENTS[", []string{"a"}, "a[x] a[-1] a[+1] a["},
		{"another word", "$ARGUMENTSX $ARGUMENTS_", []string{"a"}, "$ARGUMENTSX $ARGUMENTS_"},
		{"arguments are data", "$ARGUMENTS", []string{"$0", "$ARGUMENTS"}, "$0 $ARGUMENTS"},
		{"escaped", `\$ARGUMENTS`, []string{"a"}, "$ARGUMENTS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := invoked(t, settings.ArgsKeenRFC, tt.body, tt.args...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// req: B-028
func TestArgumentsByPosition(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"$0-$1":            "foo-bar",
		"$9":               "",
		"$10 $00 $123":     "$10 $00 $123", // two or more digits are not changed
		`\$0 costs \$5`:    "$0 costs $5",
		"$ $a $$0 end$":    "$ $a $foo end$",
		"$0$1$2":           "foobar",
		`$0\$1\$0$1`:       "foo$1$0bar",
		"100$":             "100$",
		"${0} $(0) $ 0 $x": "${0} $(0) $ 0 $x",
	} {
		if got := invoked(t, settings.ArgsKeenRFC, body, "foo", "bar"); got != want {
			t.Errorf("%q gives %q, want %q", body, got, want)
		}
	}
	ten := strings.Split("abcdefghij", "")
	for body, want := range map[string]string{"$0$1$2$3$4$5$6$7$8$9$10": "abcdefghij$10", `\$0$9`: "$0j"} { // at the very start too
		if got := invoked(t, settings.ArgsKeenRFC, body, ten...); got != want {
			t.Errorf("%q gives %q, want %q", body, got, want)
		}
	}
}

// req: B-029
func TestArgumentsNobodyAskedForAreIgnored(t *testing.T) {
	t.Parallel()
	told := func(body string, arguments ...string) string {
		w := opened(t, keen, map[string]string{"skills/demo/SKILL.md": skillFile("demo", body)})
		_, text := w.activate("demo", arguments...)
		if got := events[event.Note](w); len(got) > 0 {
			t.Errorf("warnings: %+v", got)
		}
		return strings.ReplaceAll(text, w.dir, "")
	}
	for _, body := range []string{"no placeholder, $x", "no placeholder\n", "\n  no placeholder\n\n\n"} {
		if diff := cmp.Diff(told(body), told(body, "foo", "bar")); diff != "" {
			t.Errorf("%q (-without +with arguments):\n%s", body, diff)
		}
	}
}

func TestDialectsOfArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect    settings.Args
		body, want string
	}{
		{settings.ArgsNone, "$ARGUMENTS $0", "$ARGUMENTS $0"},
		{settings.ArgsClaude, "say $0", "say foo"},
		{settings.ArgsClaude, "say it", "say it and foo bar"},
		{settings.ArgsClaude, `say \$0`, "say $0 and foo bar"},
	} {
		if got := invoked(t, tt.dialect, tt.body, "foo", "bar"); got != tt.want {
			t.Errorf("%s: %q gives %q, want %q", tt.dialect, tt.body, got, tt.want)
		}
	}
}

// The expansion of arguments is bounded.
func TestArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	w := opened(t, keen, map[string]string{"skills/demo/SKILL.md": skillFile("demo", strings.Repeat("$0", 100_000))})
	_, err := w.Activate(t.Context(), "demo", "user-explicit", strings.Repeat("x", 100_000))
	wantError(t, err, "skill_too_large", metier.LimitReached)
}
