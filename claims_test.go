package metier_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"metier"
	"metier/policy"
	"metier/settings"
)

// standing prints one line per entry: its ID, name, state, and the rule that
// decided.
func standing(n *metier.Snapshot) []string {
	var out []string
	for _, sk := range n.All() {
		out = append(out, strings.Join([]string{sk.ID.String(), sk.Name, string(sk.State), n.Rule(&sk)}, " "))
	}
	slices.Sort(out)
	return out
}

// A skill may have a name other than its folder's only while no other skill of its tier or a higher
// one claims that name.
//
// req: A-032
func TestBuild_NameOfAnotherFolder(t *testing.T) {
	t.Parallel()
	honest := skillFile("cf", "Honest.\n")
	for name, tt := range map[string]struct {
		project, user, third string // folder=name pairs of each root
		off                  string // disabled folder
		want                 []string
	}{
		"unique":                   {project: "aaa=cf", want: []string{"project:aaa cf loaded unique-name"}},
		"folder sorts after":       {project: "aaa=cf cf=cf", want: []string{"project:aaa project:aaa hidden name-taken", "project:cf cf loaded first-of-name"}},
		"folder sorts before":      {project: "zzz=cf cf=cf", want: []string{"project:cf cf loaded first-of-name", "project:zzz project:zzz hidden name-taken"}},
		"case folded":              {project: "aaa=CF cf=cf", want: []string{"project:aaa project:aaa hidden name-taken", "project:cf cf loaded first-of-name"}},
		"folder of another name":   {project: "aaa=cf cf=xyz", want: []string{"project:aaa project:aaa hidden name-taken", "project:cf xyz loaded unique-name"}},
		"refused folder":           {project: "aaa=cf cf=", want: []string{"project:aaa project:aaa hidden name-taken", "project:cf cf refused empty-file"}},
		"folder switched off":      {project: "aaa=cf cf=cf", off: "cf", want: []string{"project:aaa project:aaa hidden name-taken", "project:cf cf disabled disabled"}},
		"two claims":               {project: "aaa=cf bbb=cf", want: []string{"project:aaa project:aaa hidden name-taken", "project:bbb project:bbb hidden name-taken"}},
		"a claim switched off":     {project: "aaa=cf bbb=cf", off: "aaa", want: []string{"project:aaa cf disabled disabled", "project:bbb cf loaded unique-name"}},
		"same tier, other root":    {project: "aaa=cf", user: "cf=cf", want: []string{"project:aaa project:aaa hidden name-taken", "user:cf cf loaded first-of-name"}},
		"copies of one folder":     {project: "aaa=cf", user: "aaa=cf", want: []string{"project:aaa cf loaded first-of-name", "user:aaa cf shadowed duplicate-skill-name"}},
		"lower tier has the name":  {project: "aaa=cf", third: "cf=cf", want: []string{"project:aaa cf loaded first-of-name", "third:cf cf shadowed duplicate-skill-name"}},
		"higher tier has the name": {project: "cf=cf", third: "aaa=cf", want: []string{"project:cf cf loaded first-of-name", "third:aaa third:aaa hidden name-taken"}},
		"claims in a row":          {project: "aaa=bbb bbb=ccc", want: []string{"project:aaa project:aaa hidden name-taken", "project:bbb ccc loaded unique-name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			for _, r := range []struct {
				label, skills string
				tier          policy.Tier
			}{{"project", tt.project, policy.Project}, {"user", tt.user, policy.User}, {"third", tt.third, policy.ThirdParty}} {
				for _, pair := range strings.Fields(r.skills) {
					folder, claim, _ := strings.Cut(pair, "=")
					text := cmp.Or(strings.ReplaceAll(honest, "cf", claim), "")
					if claim == "" {
						text = ""
					}
					w.put(r.label+"/"+folder+"/SKILL.md", text)
				}
				if r.skills != "" {
					m := w.mount(r.label, r.tier)
					m.Off = func(h *metier.Head, _ metier.ID, _ string) (string, bool) {
						return "a file", tt.off != "" && h.Path == tt.off
					}
					w.roots = append(w.roots, m)
				}
			}
			for range 2 {
				if d := gocmp.Diff(tt.want, standing(w.snapshot())); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
				slices.Reverse(w.roots)
				if tt.user != "" && strings.HasPrefix(name, "copies") {
					break // here the order of the roots decides
				}
			}
		})
	}
}

// With precedence=roots the first root wins among equals, but a name still belongs to the most
// trusted folder of that name.
//
// req: A-032
func TestBuild_TrustedFolderOwnsItsNameInEveryOrderOfRoots(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cfHarness, map[string]string{"third/cf/SKILL.md": skillFile("cf", "A copy.\n"), "project/aaa/SKILL.md": skillFile("cf", "Squats.\n"), "user/cf/SKILL.md": skillFile("cf", "Honest.\n")})
	w.roots = []metier.Mount{w.mount("third", policy.ThirdParty), w.mount("project", policy.Project), w.mount("user", policy.User)}
	for range 2 {
		i := slices.IndexFunc(w.snapshot().All(), func(sk metier.Skill) bool { return sk.ID.String() == "project:aaa" })
		if d := gocmp.Diff(metier.Hidden, w.snapshot().All()[i].State); d != "" {
			t.Errorf("roots %s first (-want +got)\n%s", w.roots[0].Label, d)
		}
		slices.Reverse(w.roots)
	}
}

// A name claimed by a hidden skill leads to the skill that owns it. The hidden one remains
// reachable by its ID and can be explained.
//
// req: A-032
func TestFind_HonestFolderOwnsItsName(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cfHarness, nil)
	w.put("skills/aaa/SKILL.md", skillFile("cf", "Squats.\n"))
	w.put("skills/cf/SKILL.md", skillFile("cf", "Honest.\n"))
	w.open()
	n := w.Snapshot()
	honest, err := n.Find("cf")
	if err != nil {
		t.Fatal(err)
	}
	if want := "skills:cf"; honest.ID.String() != want {
		t.Errorf("cf is %s, want %s", honest.ID, want)
	}
	squatter, err := n.Find("skills:aaa")
	if err != nil {
		t.Fatal(err)
	}
	e := n.Explain(squatter, w.Catalog(t.Context()), nil)
	if want := `its folder is "aaa", and the name "cf" belongs to the folder of "skills:cf"`; !strings.HasSuffix(e.Reason, want) {
		t.Errorf("reason %q, want it to end with %q", e.Reason, want)
	}
	if e.Fix == "" {
		t.Error("no fix is suggested")
	}
	if e.Shown {
		t.Error("the catalog shows the squatter")
	}
}

// A skill keeps the name it had when the run began, even if a folder of that name is added later.
//
// req: A-032
func TestOpen_ResumeKeepsNameOfFolderAddedLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.set.Discover.ResourceIndex = settings.ResourceIndexStart
	w.put("skills/aaa/SKILL.md", skillFile("cf", "Text.\n"))
	w.open()
	w.put("skills/cf/SKILL.md", skillFile("cf", "Late.\n"))
	w.open()
	sk, err := w.Snapshot().Find("cf")
	if err != nil {
		t.Fatal(err)
	}
	if want := "skills:aaa"; sk.ID.String() != want {
		t.Errorf("cf is %s, want %s", sk.ID, want)
	}
}

// Confusable names remain names of two skills. The imitation is reported: the one that is not plain
// ASCII, or else the less trusted or the later one.
func TestBuild_ReportsConfusableNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		project, third []string
		want           []string // ID and detail
	}{
		"other script first":  {project: []string{"p\u0430ypal"}, third: []string{"paypal"}, want: []string{"project:p\u0430ypal its name \"p\\u0430ypal\" looks like \"paypal\" of third:paypal"}},
		"less trusted":        {project: []string{"tool-l"}, third: []string{"tool-1"}, want: []string{"third:tool-1 its name \"tool-1\" looks like \"tool-l\" of project:tool-l"}},
		"equal but for order": {project: []string{"form", "forrn"}, want: []string{"project:forrn its name \"forrn\" looks like \"form\" of project:form"}},
		"same name":           {project: []string{"form"}, third: []string{"form"}},
		"different":           {project: []string{"form", "forms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			for _, r := range []struct {
				label string
				tier  policy.Tier
				names []string
			}{{"project", policy.Project, tt.project}, {"third", policy.ThirdParty, tt.third}} {
				for _, n := range r.names {
					w.put(r.label+"/"+n+"/SKILL.md", skillFile(n, "Text.\n"))
				}
				if r.names != nil {
					w.roots = append(w.roots, w.mount(r.label, r.tier))
				}
			}
			var got []string
			for _, sk := range w.snapshot().All() {
				for _, d := range sk.Diagnostics {
					if d.Code == "confusable-name" {
						got = append(got, sk.ID.String()+" "+d.Detail)
					}
				}
				if sk.State == metier.Shadowed && name != "same name" {
					t.Errorf("%s is shadowed by %s", sk.ID, sk.ShadowedBy)
				}
			}
			if d := gocmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// Many copies of a folder whose skill claims another name take linear time: names are folded a few
// times each, not once for every other copy.
func TestBuild_CopiesOfAClaimAreNotComparedWithEachOther(t *testing.T) {
	allocs := func(copies int) float64 {
		w := newFixture(t, "default", nil)
		for i := range copies {
			w.put(fmt.Sprintf("skills/set%03d/Ähre/SKILL.md", i), skillFile("ähnlich", "Text.\n"))
		}
		w.roots = append(w.roots, w.mount("skills", policy.Project))
		if n := w.snapshot(); len(n.All()) != copies {
			t.Fatalf("%d skills, want %d", len(n.All()), copies)
		}
		return testing.AllocsPerRun(1, func() { w.snapshot() })
	}
	few, many := allocs(100), allocs(400)
	if most := 6 * few; many > most {
		t.Errorf("400 copies take %.0f allocations, want at most %.0f, 6 times those of 100", many, most)
	}
}
