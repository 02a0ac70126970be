package metier_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/settings"
)

// many writes n skills with long descriptions.
func many(w *fixture, n int) {
	for i := range n {
		w.put(fmt.Sprintf("skills/s%04d/SKILL.md", i), fmt.Sprintf("---\nname: s%04d\ndescription: Number %d. %s\n---\nThe body of s%04d.\n", i, i, strings.Repeat("It does something else for you. ", 20), i))
	}
}

func withBudget(t *testing.T, skills, budget int) *fixture {
	t.Helper()
	w := newFixture(t, settings.DefaultProfile, nil)
	w.set.Catalog.Budget = budget
	many(w, skills)
	return w.open()
}

// A catalog that is too long first shortens entries, then drops some. It stays within its budget,
// counts the omitted skills, and says how to find them.
func TestCatalogGoesDownTheLadder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget, listed int
		rung           string
		search         bool
	}{
		"no budget": {0, 60, "full", false},
		"roomy":     {100_000, 60, "full", false},
		"cut":       {4000, 60, "cut", false},
		"names":     {900, 60, "names", true},
		"too many":  {300, 24, "names", true},
		"tiny":      {1, 0, "names", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := withBudget(t, 60, c.budget)
			cat := w.Catalog(t.Context())
			if cat.Rung != c.rung || len(cat.Entries) != c.listed || cat.Omitted != 60-c.listed || cat.Budget != c.budget {
				t.Errorf("rung %s, %d listed, %d omitted; want %s, %d; %d tokens in\n%s", cat.Rung, len(cat.Entries), cat.Omitted, c.rung, c.listed, cat.Tokens, cat.Text)
			}
			if c.budget > 1 && cat.Tokens > c.budget {
				t.Errorf("%d tokens of %d", cat.Tokens, c.budget)
			}
			if cat.Omitted > 0 {
				mentions(t, cat.Text, fmt.Sprintf("(%d more omitted; find them with search_skills)", cat.Omitted))
			}
			for _, tool := range []string{"search_skills", "list_skills"} {
				if _, offered := w.spec(tool); offered != c.search {
					t.Errorf("%s is offered: %v", tool, offered)
				}
			}
			// The text has the names. They are repeated only if there is space.
			spec, _ := w.spec("load_skill")
			sch, _ := schemaOf(t, spec)
			if n := len(sch.Properties["name"].Enum); (n > 0) != (c.rung == "full") {
				t.Errorf("%d names in the schema", n)
			}
			mentions(t, w.works("load_skill", args{"name": "s0059"}).Text(), "The body of s0059.")
		})
	}
}

// Descriptions are cut to the same length: the greatest that fits.
func TestDescriptionsAreCutEvenly(t *testing.T) {
	t.Parallel()
	w := newFixture(t, settings.DefaultProfile, map[string]string{"skills/a-short/SKILL.md": "---\nname: a-short\ndescription: Short.\ncompatibility: " + strings.Repeat("Needs much. ", 30) + "\n---\n"})
	w.set.Catalog.Budget = 4000
	many(w, 60)
	cat := w.open().Catalog(t.Context())
	longest := 0
	for i, e := range cat.Entries {
		n := utf8.RuneCountInString(e.Description)
		longest = max(longest, n)
		switch {
		case i == 0 && (e.Description != "Short." || utf8.RuneCountInString(e.Compatibility) > 200 || !strings.HasSuffix(e.Compatibility, "…")):
			t.Errorf("the short one is %+v", e)
		case i > 0 && (!strings.HasSuffix(e.Description, "…") || e.Location != ""):
			t.Errorf("%+v", e)
		}
	}
	for _, e := range cat.Entries[1:] {
		if n := utf8.RuneCountInString(e.Description); n < longest-8 {
			t.Errorf("%s has %d characters, another one %d", e.Name, n, longest)
		}
	}
	// Eight more characters would not have fit.
	for i := range cat.Entries {
		cat.Entries[i].Description += "12345678"
	}
	if room := cat.Budget - cat.Tokens; room > 60*4+80 {
		t.Errorf("%d tokens are left of %d for %d entries", room, cat.Budget, len(cat.Entries))
	}
}

// The same skills produce the same bytes, and one more skill changes little. Prompt caches depend
// on it.
func TestCatalogIsStable(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{0, 4000, 900, 300} {
		w := withBudget(t, 60, budget)
		before := w.Catalog(t.Context())
		if again := withBudget(t, 60, budget).Catalog(t.Context()); again.Text != before.Text {
			t.Errorf("budget %d: another text the second time", budget)
		}
		w.put("skills/s0010b/SKILL.md", "---\nname: s0010b\ndescription: One more.\n---\n")
		w.Session = nil
		next := *w
		next.Session = next.other()
		after := next.Catalog(t.Context())
		lines := strings.Split(before.Text, "\n")
		changed := 0
		for l := range strings.SplitSeq(after.Text, "\n") {
			if !slices.Contains(lines, l) {
				changed++
			}
		}
		if budget != 4000 && changed > 4 { // its own lines, and the count
			t.Errorf("budget %d: %d lines are new", budget, changed)
		}
		if !slices.ContainsFunc(after.Entries, func(e metier.CatalogEntry) bool { return e.Name == "s0010b" }) {
			t.Errorf("budget %d: the new skill is missing", budget)
		}
	}
}

// other opens a second session, with its own record.
func (w *fixture) other() *metier.Session {
	fresh := newFixture(w.t, w.profile, nil)
	w.log, w.blobs = fresh.log, fresh.blobs
	return w.session()
}

// Many third-party skills do not displace the user's own.
func TestTrustedSkillsAreNamedFirst(t *testing.T) {
	t.Parallel()
	w := newFixture(t, settings.DefaultProfile, nil)
	many(w, 60)
	w.put("own/zz-own/SKILL.md", skillFile("zz-own", "x"))
	w.set.Catalog.Budget = 300
	w.roots = []metier.Mount{w.mount("skills", policy.ThirdParty), w.mount("own", policy.Project)}
	cat := w.open().Catalog(t.Context())
	if cat.Omitted < 30 || cat.Entries[len(cat.Entries)-1].Name != "zz-own" {
		t.Errorf("listed: %+v", cat.Entries)
	}
}

// Names alone are escaped for their context as well.
func TestNamesOnlyStaysParseable(t *testing.T) {
	t.Parallel()
	var heads []metier.Head
	for i, s := range nasty {
		heads = append(heads, invented(fmt.Sprintf("d%d", i), fmt.Sprintf("n%d%s x", i, s), strings.Repeat("a b ", 200)))
	}
	for _, format := range []settings.CatalogFormat{settings.CatalogFormatXML, settings.CatalogFormatJSON, settings.CatalogFormatMarkdown, settings.CatalogFormatPaths} {
		s := budgeted(t, format, 900, heads...)
		cat := s.Catalog(t.Context())
		if cat.Rung != "names" || len(cat.Entries) < 20 || hiding(cat.Text) != "" {
			t.Fatalf("%s: %s, %d entries, %s in\n%s", format, cat.Rung, len(cat.Entries), hiding(cat.Text), cat.Text)
		}
		var names []string
		switch format {
		case settings.CatalogFormatXML:
			var x struct {
				Skills []struct {
					Name string `xml:"name,attr"`
				} `xml:"skill"`
			}
			if err := xml.Unmarshal([]byte(cat.Text[strings.Index(cat.Text, "<available_skills>"):]), &x); err != nil {
				t.Fatalf("%v in\n%s", err, cat.Text)
			}
			for _, sk := range x.Skills {
				names = append(names, sk.Name)
			}
		case settings.CatalogFormatJSON:
			var j struct{ Skills []metier.CatalogEntry }
			if err := json.Unmarshal([]byte(cat.Text[strings.Index(cat.Text, "{"):]), &j); err != nil {
				t.Fatalf("%v in\n%s", err, cat.Text)
			}
			for _, e := range j.Skills {
				names = append(names, e.Name)
			}
		default:
			if n := strings.Count(cat.Text, "\n- "); n != len(cat.Entries) || element.MatchString(seen(cat.Text)) || strings.Contains(cat.Text, "`") {
				t.Errorf("%d lines for %d skills in\n%s", n, len(cat.Entries), cat.Text)
			}
			continue
		}
		for i, e := range cat.Entries {
			if names[i] != e.Name {
				t.Errorf("%s: %q is read as %q", format, e.Name, names[i])
			}
		}
	}
}

// entryKeys lists the names of an entry's fields.
func entryKeys(t *testing.T, e metier.CatalogEntry) (keys []string) {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// req
func TestEntryIsNameAndDescriptionWhateverTheSkillHolds(t *testing.T) {
	t.Parallel()
	text := func(files int) string {
		w := newFixture(t, cfHarness, map[string]string{"skills/big/SKILL.md": skillFile("big", strings.Repeat("The body goes on. ", 5000), "compatibility: needs git", "license: MIT", "metadata:\n  a: b")})
		for i := range files {
			w.put(fmt.Sprintf("skills/big/references/d%d/f%d.md", i/100, i), "x")
		}
		cat := w.open().Catalog(t.Context())
		if got := entryKeys(t, cat.Entries[0]); !slices.Equal(got, []string{"compatibility", "description", "name"}) {
			t.Errorf("an entry has %v", got)
		}
		want := []metier.CatalogEntry{{Name: "big", Description: "Use when testing big.", Compatibility: "needs git"}}
		if diff := cmp.Diff(want, cat.Entries); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		silent(t, cat.Text, "The body", "references", "MIT")
		mentions(t, cat.Text, "big", "Use when testing big.")
		return cat.Text
	}
	w := newFixture(t, cfHarness, map[string]string{"skills/plain/SKILL.md": skillFile("plain", "Body.\n", "user-invocable: false", "when_to_use: Later.", "version: 1.2.3")})
	if got := entryKeys(t, w.open().Catalog(t.Context()).Entries[0]); !slices.Equal(got, []string{"description", "name"}) {
		t.Errorf("without compatibility an entry has %v", got)
	}
	const most = 1024 // characters of one text
	w = newFixture(t, cfHarness, map[string]string{"skills/long/SKILL.md": skillFile("long", "", "compatibility: "+strings.Repeat("c", 5000))})
	w.put("skills/wide/SKILL.md", "---\nname: wide\ndescription: "+strings.Repeat("d", 5000)+"\n---\n")
	cut := w.open().Catalog(t.Context()).Entries
	want := []metier.CatalogEntry{{Name: "long", Description: "Use when testing long.", Compatibility: strings.Repeat("c", most-1) + "…"}, {Name: "wide", Description: strings.Repeat("d", most-1) + "…"}}
	if d := cmp.Diff(want, cut); d != "" {
		t.Errorf("long texts (-want +got):\n%s", d)
	}
	if one, all := text(1), text(2000); one != all || len(all) > 500 {
		t.Errorf("%d bytes for one file, %d for 2,000:\n%s", len(one), len(all), all)
	}
}

// req: A-137
func TestCatalogStandsInTheToolUnlessItIsPutIntoThePrompt(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{settings.DefaultProfile, cfHarness} {
		for _, place := range []settings.CatalogPlace{"", settings.CatalogPlaceTool, settings.CatalogPlaceSystem} {
			w := newFixture(t, profile, guide())
			if place != "" {
				w.set.Catalog.Place = place
			}
			cat := w.open().Catalog(t.Context())
			spec, _ := w.spec("load_skill")
			inTool := place != settings.CatalogPlaceSystem // the default
			if cat.InTool() != inTool || cat.InSystem() == inTool || strings.Contains(spec.Description, "Use when testing guide.") != inTool {
				t.Errorf("%s, %q: %+v; the tool says %q", profile, place, cat, spec.Description)
			}
		}
		long := map[string]string{} // more than providers accept as a tool description
		for i := range 70 {
			long[fmt.Sprintf("skills/s%02d/SKILL.md", i)] = fmt.Sprintf("---\nname: s%02d\ndescription: %s\n---\n", i, strings.Repeat("Long. ", 170))
		}
		w := newFixture(t, profile, long)
		w.set.Catalog.Budget, w.set.Catalog.Max, w.set.Catalog.DescMax = 0, 0, 0
		cat := w.open().Catalog(t.Context())
		spec, _ := w.spec("load_skill")
		if !cat.InSystem() || cat.InTool() || strings.Contains(spec.Description, "Long.") || len(cat.Entries) != 70 {
			t.Errorf("%s: a catalog of %d bytes stands in %s with %d entries", profile, len(cat.Text), cat.Place, len(cat.Entries))
		}
	}
}

// kept is a workspace with skills that a model must not see.
func kept(t *testing.T, profile string) *fixture {
	w := newFixture(t, profile, map[string]string{
		"skills/alpha/SKILL.md":  skillFile("alpha", "a"),
		"skills/loud/SKILL.md":   skillFile("loud", "l", "disable-model-invocation: false", "user-invocable: false"),
		"skills/quiet/SKILL.md":  skillFile("quiet", "q", "disable-model-invocation: true"),
		"skills/quoted/SKILL.md": skillFile("quoted", "q", "disable-model-invocation: 'True'"),
		"skills/denied/SKILL.md": skillFile("denied", "d"),
		"skills/byid/SKILL.md":   skillFile("byid", "i"),
		"skills/ruled/SKILL.md":  skillFile("ruled", "r"),
		"skills/squat/SKILL.md":  skillFile("alpha", "of another folder"),
		"skills/broken/SKILL.md": "---\nname: broken\ndescription: [\n---\n",
		"skills/hollow/SKILL.md": "---\nname: hollow\n---\n",
	})
	w.config = func(c *metier.Config) {
		c.Grants.Denied = []string{"Denied", "skills:byid"} // in any letters
		c.Grants.Skills = []policy.SkillRule{{Skill: "skills:ruled", Effect: policy.RuleDeny}}
	}
	return w.open()
}

// toldNames are the names in the catalog and in the schema of the load tool.
func toldNames(t *testing.T, w *fixture) (names, enum []string) {
	t.Helper()
	for _, e := range w.Catalog(t.Context()).Entries {
		names = append(names, e.Name)
	}
	spec, _ := w.spec("load_skill")
	sch, _ := schemaOf(t, spec)
	return names, sch.Properties["name"].Enum
}

// req
func TestBrokenAndDeniedSkillsAreNotTold(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := kept(t, profile)
		names, enum := toldNames(t, w)
		for _, absent := range []string{"broken", "hollow", "denied", "byid", "ruled", "squat"} {
			if slices.Contains(names, absent) || slices.Contains(enum, absent) || strings.Contains(w.Catalog(t.Context()).Text, absent) {
				t.Errorf("%s is told: %v, %v", absent, names, enum)
			}
		}
		if !slices.Contains(names, "alpha") {
			t.Errorf("alpha is not: %v", names)
		}
		w.fails("skill_denied", "load_skill", args{"name": "denied"})
		w.fails("skill_denied", "load_skill", args{"name": "skills:denied"})
		w.fails("skill_denied", "load_skill", args{"name": "byid"})
		w.fails("skill_denied", "load_skill", args{"name": "ruled"})
		w.fails("skill_not_found", "load_skill", args{"name": "hollow"})
		for tool, a := range map[string]args{"search_skills": {"query": "testing"}, "list_skills": {}} {
			if slices.Contains(w.set.Tools.Default, tool) {
				silent(t, w.works(tool, a).Text(), "broken", "hollow", "denied", "ruled")
			}
		}
		_, err := w.Activate(t.Context(), "denied", "cli-preload")
		wantError(t, err, "skill_denied", metier.Denied)
		if n := len(events[event.SkillActivated](w)); n != 0 {
			t.Errorf("%d activations", n)
		}
		w.fails("skill_not_found", "load_skill", args{"name": "broken"})
	})
}

// req
func TestSkillsThatModelsMayNotLoadAreNotTold(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, profile string) {
		w := kept(t, profile)
		names, enum := toldNames(t, w)
		if want := []string{"alpha", "loud"}; !slices.Equal(names, want) || !slices.Equal(enum, want) {
			t.Errorf("told %v, in the schema %v", names, enum)
		}
		spec, _ := w.spec("load_skill")
		silent(t, w.Catalog(t.Context()).Text+spec.Description, "quiet", "quoted")
		w.fails("skill_not_found", "load_skill", args{"name": "quiet"})
		w.fails("skill_not_found", "load_skill", args{"name": "skills:quiet"})
		w.fails("skill_not_found", resourceCall, args{"skill": "quiet", "path": "SKILL.md"})
		for tool, a := range map[string]args{"search_skills": {"query": "testing"}, "list_skills": {}} {
			if slices.Contains(w.set.Tools.Default, tool) {
				text := w.works(tool, a).Text()
				mentions(t, text, "alpha")
				silent(t, text, "quiet", "quoted")
			}
		}
		w.activate("quiet") // a user may
	})
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s says\n%s\nand this is\n%s", name, want, got)
	}
}

// req: B-010, B-018
func TestKeensCatalogIsItsText(t *testing.T) {
	t.Parallel()
	w := opened(t, keen, map[string]string{"skills/my-skill/SKILL.md": "---\nname: my-skill\ndescription: Brief description\n---\nx", "skills/another-skill/SKILL.md": "---\nname: another-skill\ndescription: Another description\n---\nx"})
	cat := w.Catalog(t.Context())
	golden(t, "catalog_keen.golden", strings.ReplaceAll(cat.Text, w.dir, "/absolute/path/to/project"))
	long := strings.Repeat("é", 1024) // an allowed description is shown in full
	mentions(t, opened(t, keen, map[string]string{"skills/long/SKILL.md": "---\nname: long\ndescription: " + long + "\n---\nx"}).Catalog(t.Context()).Text, "\n- long: "+long+" → read ")
	mentions(t, opened(t, keen, map[string]string{"skills/longer/SKILL.md": "---\nname: longer\ndescription: " + long + "é\n---\nx"}).Catalog(t.Context()).Text,
		"\n- longer: "+strings.Repeat("é", 1023)+"… → read ")
	mentions(t, opened(t, keen, map[string]string{"skills/lines/SKILL.md": "---\nname: lines\ndescription: |\n  Does this.\n  Use when asked.\n---\nx"}).Catalog(t.Context()).Text,
		"\n- lines: Does this. Use when asked. → read ")
}

// req: C-025, C-026
func TestRuntimeCatalogIsAnElement(t *testing.T) {
	t.Parallel()
	w := newFixture(t, runtimeProf, map[string]string{"skills/one/SKILL.md": "---\nname: one\ndescription: Does <b>this</b> & \"that\" in 'quotes'\n---\nx", "skills/two/SKILL.md": "---\nname: two\ndescription: Does more\n---\nx"})
	cat := w.open().Catalog(t.Context())
	if !cat.InSystem() {
		t.Errorf("it stands in %s", cat.Place)
	}
	var x struct {
		XMLName xml.Name `xml:"available_skills"`
		Skills  []struct {
			Name        string `xml:"name"`
			Description string `xml:"description"`
			Location    string `xml:"location"`
		} `xml:"skill"`
	}
	if err := xml.Unmarshal([]byte(cat.Text[strings.Index(cat.Text, "<available_skills>"):]), &x); err != nil {
		t.Fatal(err)
	}
	if len(x.Skills) != 2 || x.Skills[0].Name != "one" || x.Skills[0].Description != `Does <b>this</b> & "that" in 'quotes'` || x.Skills[0].Location != w.at("skills/one/SKILL.md") || x.Skills[1].Location != w.at("skills/two/SKILL.md") {
		t.Errorf("%+v", x)
	}
	mentions(t, cat.Text, "Does &lt;b&gt;this&lt;/b&gt; &amp; &quot;that&quot; in &#39;quotes&#39;")
	golden(t, "catalog_runtime.golden", strings.ReplaceAll(cat.Text, w.dir, "/absolute/path"))
	mentions(t, w.preview().System, cat.Text)
	low := opened(t, runtimeProf, map[string]string{"skills/low/skill.md": skillFile("low", "")})
	mentions(t, low.Catalog(t.Context()).Text, "<location>"+low.at("skills/low/skill.md")+"</location>")
	many := map[string]string{} // where only names fit, a file can still be read
	for i := range 20 {
		name := fmt.Sprintf("s%02d", i)
		many["skills/"+name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: " + strings.Repeat("Does it well. ", 30) + "\n---\n"
	}
	w = newFixture(t, runtimeProf, many)
	w.set.Activate.Ways, w.set.Catalog.Budget = settings.Set[settings.Way]{settings.WayReadFile}, 1200
	w.set.Tools.Load = ""
	cat = w.open().Catalog(t.Context())
	if cat.Rung != "names" {
		t.Errorf("the catalog has the rung %s: %s", cat.Rung, cat.Text)
	}
	mentions(t, cat.Text, `<skill name="s00" location="`+w.at("skills/s00/SKILL.md")+`"/>`)
	// Names and locations are escaped, too.
	const five = `a<b>&"c'`
	cat = budgeted(t, settings.CatalogFormatXML, 0, invented("d"+five, "n"+five, "Does it. "+five)).Catalog(t.Context())
	const escaped = "a&lt;b&gt;&amp;&quot;c&#39;"
	mentions(t, cat.Text, "<name>n"+escaped+"</name>", "<location>/ws/d"+escaped+"/SKILL.md</location>", "<description>Does it. "+escaped+"</description>", "<compatibility>Does it. "+escaped+"</compatibility>")
	cat = budgeted(t, settings.CatalogFormatXML, 120, invented("d"+five, "n"+five, "Does it. "+strings.Repeat(five, 100))).Catalog(t.Context())
	mentions(t, cat.Text, `<skill name="n`+escaped+`"`)
}

// req: C-027
func TestClientsWithoutFilesGetNoLocations(t *testing.T) {
	t.Parallel()
	w := newFixture(t, runtimeProf, guide())
	w.set.Catalog.Paths = settings.PathsNone
	w.open()
	cat := w.Catalog(t.Context())
	silent(t, cat.Text, "location", w.dir)
	mentions(t, cat.Text, "<name>guide</name>")
	text := w.works("skills.read", args{"name": "skills:guide"}).Text() // its ID
	mentions(t, text, "Read references/a.md when needed.")
	silent(t, text, w.dir)
}

// Clients without paths receive the ID of each skill, in every format, and use it in calls.
//
// req: C-027
func TestPathsNone_SkillID(t *testing.T) {
	t.Parallel()
	for format, want := range map[settings.CatalogFormat]string{
		settings.CatalogFormatXML:      "<skillId>skills:guide</skillId>",
		settings.CatalogFormatJSON:     `"skillId":"skills:guide"`,
		settings.CatalogFormatMarkdown: "- guide (skills:guide): ",
	} {
		w := newFixture(t, runtimeProf, guide())
		w.set.Catalog.Paths, w.set.Catalog.Format = settings.PathsNone, format
		mentions(t, w.open().Catalog(t.Context()).Text, want)
	}
	w := newFixture(t, runtimeProf, guide())
	w.set.Catalog.Paths = settings.PathsNone
	w.config = func(c *metier.Config) { c.ToolsOnly = true }
	w.open()
	listed := w.works("skills.list", args{})
	mentions(t, listed.Text(), "- guide (skills:guide): ")
	mentions(t, string(listed.Detail()), `"skillId":"skills:guide"`)
	mentions(t, w.works("skills.read", args{"skillId": "skills:guide"}).Text(), "Read references/a.md when needed.")
	mentions(t, w.works("skills.read_resource", args{"skillId": "skills:guide", "path": "references/a.md"}).Text(), "canary")
	for _, tool := range []string{"skills.read", "skills.read_resource"} {
		spec, _ := w.spec(map[string]string{"skills.read": settings.ToolLoadSkill, "skills.read_resource": settings.ToolReadSkillResource}[tool])
		if _, props := schemaOf(t, spec); !slices.Contains(props, "skillId") {
			t.Errorf("%s takes %q", tool, props)
		}
	}
	w.fails("invalid_arguments", "skills.read", args{"skillId": "skills:guide", "name": "guide"})
	w.fails("invalid_arguments", "skills.read", args{})
	w.fails("skill_not_found", "skills.read", args{"skillId": "guide"}) // a name is not an ID
	w.fails("skill_not_found", "skills.read_resource", args{"skillId": "guide", "path": "references/a.md"})

	shown := opened(t, runtimeProf, guide())
	shown.fails("invalid_arguments", "skills.read", args{"skillId": "skills:guide"})
	shown.fails("invalid_arguments", "skills.read_resource", args{"skillId": "skills:guide", "path": "references/a.md"})
}

// req: C-028
func TestRuntimeCatalogTakesFiftyToAHundredTokensPerSkill(t *testing.T) {
	t.Parallel()
	w := corpusWorld(t)
	layer, err := settings.Profile(runtimeProf)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	set.Catalog.Paths = settings.PathsRepo // the corpus is outside of the workspace; its path says nothing about its skills
	w.set.Catalog, w.set.Activate = set.Catalog, set.Activate
	w.Session = w.other()
	cat := w.Catalog(t.Context())
	mean := float64(cat.Tokens) / float64(len(cat.Entries))
	t.Logf("%d skills, %d tokens, %.0f each", len(cat.Entries), cat.Tokens, mean)
	if mean < 50 || mean > 100 {
		t.Errorf("%.0f tokens for each skill", mean)
	}
	clamped := 0
	for _, e := range cat.Entries {
		n := utf8.RuneCountInString(e.Description)
		if n > 240 {
			t.Errorf("%s has %d characters", e.Name, n)
		}
		if strings.HasSuffix(e.Description, "…") {
			clamped++
		}
	}
	if clamped == 0 {
		t.Error("none was cut")
	}
}

// req: C-028
func TestRuntimeCatalogCutsDescriptionsAt240Characters(t *testing.T) {
	t.Parallel()
	limit := strings.Repeat("é", 240)
	for text, want := range map[string]string{limit: limit, limit + "é": limit[:239*2] + "…"} {
		cat := opened(t, runtimeProf, map[string]string{"skills/long/SKILL.md": "---\nname: long\ndescription: " + text + "\n---\n"}).Catalog(t.Context())
		if diff := cmp.Diff(want, cat.Entries[0].Description); diff != "" {
			t.Error(diff)
		}
		mentions(t, cat.Text, "<description>"+want+"</description>")
		w := newFixture(t, runtimeProf, map[string]string{"skills/long/SKILL.md": "---\nname: long\ndescription: " + text + "\n---\n"})
		w.config = func(c *metier.Config) { c.ToolsOnly = true }
		w.open()
		mentions(t, string(w.works("skills.list", args{}).Detail()), `"description":"`+want+`"`)
	}
}

// req: C-058
func TestCatalogHasSeveralForms(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for format, has := range map[settings.CatalogFormat]string{settings.CatalogFormatXML: "<available_skills>\n  <skill>\n    <name>guide</name>", settings.CatalogFormatJSON: `{"skills":[{"name":"guide"`,
		settings.CatalogFormatMarkdown: "\n- guide: Use when", settings.CatalogFormatPaths: "## Available Skills\n"} {
		w := newFixture(t, runtimeProf, guide())
		w.set.Catalog.Format = format
		cat := w.open().Catalog(t.Context())
		mentions(t, cat.Text, has, "guide", "Use when testing guide.")
		if !cat.InSystem() || !strings.Contains(w.preview().System, cat.Text) {
			t.Errorf("%s: the model is not told of it", format)
		}
		texts[cat.Text] = true
	}
	if len(texts) != 4 {
		t.Errorf("%d different texts", len(texts))
	}
	for format, want := range map[settings.CatalogFormat]string{
		settings.CatalogFormatXML:      "\n\n<available_skills>\n  <skill>\n    <name>n`x</name>\n    <description>Does `it` &lt;b&gt;</description>\n    <location>/ws/d/SKILL.md</location>\n    <compatibility>Does `it` &lt;b&gt;</compatibility>\n  </skill>\n</available_skills>",
		settings.CatalogFormatJSON:     "\n\n{\"skills\":[{\"name\":\"n`x\",\"description\":\"Does `it` \\u003cb\\u003e\",\"location\":\"/ws/d/SKILL.md\",\"compatibility\":\"Does `it` \\u003cb\\u003e\"}]}",
		settings.CatalogFormatMarkdown: "\n\n- n'x: Does 'it' <b>",
		settings.CatalogFormatPaths:    "\n\n- n'x: Does 'it' <b> → read /ws/d/SKILL.md",
	} {
		text := budgeted(t, format, 0, invented("d", "n`x", "Does `it` <b>")).Catalog(t.Context()).Text
		if !strings.HasSuffix(text, want) {
			t.Errorf("%s: %q, want it to end with %q", format, text, want)
		}
	}
}

// req: E-046
func TestNamesMatchAfterTrimAndLowerCase(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{project, settings.DefaultProfile} {
		for _, name := range []string{" My-Skill ", "\tMY-SKILL\n", "my-skill"} {
			w := opened(t, profile, map[string]string{"skills/my-skill/SKILL.md": skillFile("my-skill", "The right body.\n")})
			mentions(t, w.works(w.set.Tools.Load, args{"name": name}).Text(), "The right body.")
		}
	}
	w := opened(t, project, projectFiles()) // of a skill named My Skill
	mentions(t, w.works("skills.load", args{"name": " my SKILL"}).Text(), "Canary body")
	mentions(t, w.works("skills.readFile", args{"name": "my skill\t", "path": "references/a.md"}).Text(), "line one")
	w.refusal("skills.load", args{"name": "my  skill"})
	w.refusal("skills.readFile", args{"name": "my  skill", "path": "references/a.md"})
	w = opened(t, project, map[string]string{"skills/apples/SKILL.md": skillFile("Äpfel", "The body of apples.\n")})
	mentions(t, w.works("skills.load", args{"name": "\näPFEL "}).Text(), "The body of apples.")
	for name, want := range map[string]int{" ÄPFEL\t": 1, "apfel": 0} { // as show and explain look skills up
		if diff := cmp.Diff(want, len(w.Snapshot().Entries(name))); diff != "" {
			t.Errorf("entries of %q (-want +got):\n%s", name, diff)
		}
	}
}

// Names that differ only in case are one name: the skill of the first root has it.
//
// req: E-046
func TestBuild_NamesThatDifferInCaseAreOneName(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{project, settings.DefaultProfile} {
		w := newFixture(t, profile, map[string]string{"skills/my-skill/SKILL.md": skillFile("my-skill", "First.\n"), "more/my-skill/SKILL.md": skillFile(" My-SKILL", "Second.\n")})
		w.roots = []metier.Mount{w.mount("skills", policy.Project), w.mount("more", policy.Project)}
		if diff := cmp.Diff([]string{"more:my-skill My-SKILL shadowed duplicate-skill-name", "skills:my-skill my-skill loaded first-of-name"}, standing(w.snapshot())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", profile, diff)
		}
		mentions(t, w.open().works(w.set.Tools.Load, args{"name": "MY-SKILL"}).Text(), "First.")
	}
}

// req: E-048, E-049, E-050
func TestProjectPromptListsFiftyAndClampsThem(t *testing.T) {
	t.Parallel()
	w := newFixture(t, project, nil)
	many(w, 55)
	cat := w.open().Catalog(t.Context())
	if !cat.InSystem() || len(cat.Entries) != 50 || cat.Omitted != 5 || strings.Count(cat.Text, "\n- ") != 50 {
		t.Errorf("in %s, %d listed, %d omitted", cat.Place, len(cat.Entries), cat.Omitted)
	}
	mentions(t, cat.Text, "(5 more omitted", "load it with skills.load; read a file it mentions with skills.readFile. Available skills:")
	for i, e := range cat.Entries {
		if want := fmt.Sprintf("s%04d", i); e.Name != want || !strings.Contains(cat.Text, "\n- "+want+": "+e.Description+"\n") {
			t.Errorf("entry %d is %s, want %s with its description in the text", i, e.Name, want)
		}
		if n := utf8.RuneCountInString(e.Description); n != 200 && n != 199 || !strings.HasSuffix(e.Description, "…") {
			t.Errorf("%s: %d characters: %s", e.Name, n, e.Description)
		}
	}

	w = newFixture(t, project, nil)
	many(w, 49)
	exact := strings.Repeat("é", 200)
	w.put("skills/exact/SKILL.md", "---\nname: exact\ndescription: "+exact+"\n---\nText.\n")
	cat = w.open().Catalog(t.Context())
	if len(cat.Entries) != 50 || cat.Omitted != 0 {
		t.Errorf("of 50, %d listed, %d omitted", len(cat.Entries), cat.Omitted)
	}
	silent(t, cat.Text, "omitted")
	mentions(t, cat.Text, "\n- exact: "+exact+"\n")
}

// The canonical tree with all its optional parts is one skill, and every file of it is indexed with
// its kind.
//
// req: A-002
func TestCanonicalTreeIsOneSkillWithAllItsFiles(t *testing.T) {
	t.Parallel()
	for _, profile := range both {
		canonicalTree(t, profile)
	}
}

func canonicalTree(t *testing.T, profile string) {
	t.Helper()
	w := opened(t, profile, map[string]string{
		"skills/report/SKILL.md":           skillFile("report", "Read what is needed.\n"),
		"skills/report/references/form.md": "form", "skills/report/references/deep/more.md": "more",
		"skills/report/templates/page.html": "<p>", "skills/report/scripts/run.sh": "#!/bin/sh\n", "skills/report/scripts/lib/part.py": "pass\n",
		"skills/report/assets/logo.svg": "<svg/>", "skills/report/notes.txt": "other", "skills/report/data/table.csv": "a,b\n", "skills/report/assets/.hidden": "x",
	})
	all := w.snapshot().All()
	if len(all) != 1 || all[0].Name != "report" || all[0].State != metier.Loaded {
		t.Fatalf("skills: %+v", all)
	}
	sk, err := w.snapshot().Index(t.Context(), all[0])
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]metier.ResourceKind{}
	for _, r := range sk.Resources {
		got[r.Path] = r.Kind
	}
	want := map[string]metier.ResourceKind{"references/form.md": metier.Reference, "references/deep/more.md": metier.Reference, "templates/page.html": metier.Template,
		"scripts/run.sh": metier.Script, "scripts/lib/part.py": metier.Script, "assets/logo.svg": metier.Asset, "notes.txt": metier.Other, "data/table.csv": metier.Other, "assets/.hidden": metier.Asset}
	delete(got, "SKILL.md") // listed or not by a setting of its own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
