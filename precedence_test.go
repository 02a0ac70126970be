package metier_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

// outcomes prints one line per entry: who has the name, and why the others do
// not.
func outcomes(n *metier.Snapshot) []string {
	var out []string
	for _, sk := range n.All() {
		line := fmt.Sprintf("%s %s", sk.ID, sk.State)
		if sk.State == metier.Shadowed {
			line += " by " + sk.ShadowedBy.String()
		}
		for _, d := range sk.Diagnostics {
			if d.Code == "duplicate-skill-name" || d.Code == "name-protected" || d.Code == "skill-listed-twice" {
				line += " [" + d.Code + " " + d.Detail + "]"
			}
		}
		out = append(out, line)
	}
	return out
}

// twins is a list of skills of a few names.
func twins(t *testing.T, w *fixture, dir string, names ...string) {
	t.Helper()
	for i, name := range names {
		w.put(fmt.Sprintf("%s/f%d/%s/SKILL.md", dir, i, name), skillFile(name, fmt.Sprintf("The %d. of %s.\n", i, dir)))
	}
}

// heads lists a root of a fixture and returns its list in another order.
func heads(t *testing.T, m metier.Mount, shuffle func(n int, swap func(i, j int))) metier.Mount {
	t.Helper()
	var list listOf
	for h, err := range m.Source.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, *h)
	}
	shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	m.Source = list
	return m
}

// Neither the order in which folders were created nor the order in which a source lists them
// affects the result.
//
// req
func TestTheOrderOfDirectoriesDecidesNothing(t *testing.T) {
	t.Parallel()
	names := []string{"same", "other", "same", "Same", "sa\u0308me", "s\u00e4me", "same", "alone"}
	var first []string
	for round := range 100 {
		dice := rand.New(rand.NewPCG(uint64(round), 33))
		w := newFixture(t, "default", nil)
		for _, i := range dice.Perm(len(names)) {
			for _, root := range []string{"a", "b"} {
				w.put(fmt.Sprintf("%s/f%d/%s/SKILL.md", root, i, names[i]), skillFile(names[i], "Text.\n"))
			}
		}
		w.roots = []metier.Mount{heads(t, w.mount("a", policy.User), dice.Shuffle), heads(t, w.mount("b", policy.Project), dice.Shuffle)}
		n := w.snapshot()
		got := outcomes(n)
		if first == nil {
			first = got
			for _, want := range []string{"b:f0/same loaded", `b:f2/same shadowed by b:f0/same [duplicate-skill-name skill "same" is shadowed by "b:f0/same"]`,
				`b:f3/Same shadowed by b:f0/same [duplicate-skill-name skill "Same" is shadowed by "b:f0/same"]`, "b:f4/sa\u0308me loaded", "b:f5/s\u00e4me shadowed by b:f4/sa\u0308me",
				"a:f0/same shadowed by b:f0/same", "b:f7/alone loaded", "a:f7/alone shadowed by b:f7/alone"} {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
					t.Errorf("no %q in\n%s", want, strings.Join(got, "\n"))
				}
			}
		}
		if d := cmp.Diff(first, got); d != "" {
			t.Fatalf("round %d decided otherwise:\n%s", round, d)
		}
		for _, sk := range n.All() {
			named := slices.ContainsFunc(n.Diagnostics(), func(d metier.Diagnostic) bool {
				return d.Code == "duplicate-skill-name" && d.Path == sk.Head.Location && strings.Contains(d.Detail, sk.ShadowedBy.String())
			})
			if named != (sk.State == metier.Shadowed) {
				t.Fatalf("round %d: %s is %s, named in a diagnostic: %v", round, sk.ID, sk.State, named)
			}
		}
	}
}

// The match setting defines which names are equal.
func TestTwinsByCaseAndByNormalisation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		match settings.Match
		want  int // usable ones of: same Same SAME ﬁx fix säme (two spellings)
	}{{settings.MatchExact, 7}, {settings.MatchNFKC, 5}, {settings.MatchCasefold, 3}} {
		w := newFixture(t, "default", nil)
		w.set.Names.Match = tt.match
		twins(t, w, "skills", "same", "Same", "SAME", "\ufb01x", "fix", "sa\u0308me", "s\u00e4me")
		n := w.snapshot()
		if got := len(n.Skills()); got != tt.want || len(n.All()) != 7 {
			t.Errorf("%s: %d usable, want %d of %d:\n%s", tt.match, got, tt.want, len(n.All()), strings.Join(outcomes(n), "\n"))
		}
	}
}

// A less trusted skill does not take a name, whatever the order of roots, and every skill that
// loses its name stays listed.
func TestProtectedNames(t *testing.T) {
	t.Parallel()
	tiers := []policy.Tier{policy.ThirdParty, policy.User, policy.Project, policy.Org, policy.Builtin}
	for _, protect := range []settings.Protect{settings.ProtectYes, settings.ProtectNo} {
		w := newFixture(t, "default", nil)
		w.set.Names.Protect, w.set.Names.Precedence = protect, []string{"third_party", "user", "project", "org", "builtin"}
		for _, tier := range tiers {
			twins(t, w, string(tier), "same")
			w.roots = append(w.roots, w.mount(string(tier), tier))
		}
		n := w.snapshot()
		want, code := policy.Builtin, "name-protected"
		if protect == settings.ProtectNo {
			want, code = policy.ThirdParty, "duplicate-skill-name"
		}
		sk, err := n.Find("same")
		if err != nil || sk.Tier != want || len(n.All()) != len(tiers) {
			t.Fatalf("protect_names=%s: %v %s, %d listed", protect, err, sk.Tier, len(n.All()))
		}
		for _, other := range n.All()[1:] {
			if e := n.Explain(other, metier.Catalog{}, nil); e.State != metier.Shadowed || e.By.ID != sk.ID || e.Rule != code && other.Tier != policy.Project {
				t.Errorf("protect_names=%s: %s is %s by %s, rule %s", protect, other.ID, e.State, e.By.ID, e.Rule)
			}
		}
	}
}

// A folder reached by several roots is one skill. Its other paths stay listed.
func TestOneFolderCountsOnce(t *testing.T) {
	t.Parallel()
	for _, identity := range []settings.Identity{settings.IdentityName, settings.IdentityFolder, settings.IdentityPath} {
		w := newFixture(t, "default", nil)
		w.set.Names.Identity = identity
		w.put("skills/group/same/SKILL.md", skillFile("same", "Text.\n"))
		w.roots = []metier.Mount{w.mount("skills", policy.User), w.mount("skills/group", policy.Project)}
		w.roots[1].Label = "inner"
		n := w.snapshot()
		want := []string{"inner:same loaded", `skills:group/same shadowed by inner:same [skill-listed-twice skill "same" is shadowed by "inner:same"]`}
		if identity == settings.IdentityPath {
			want[1] = `skills:group/same shadowed by inner:same [skill-listed-twice skill "group/same" is shadowed by "inner:same"]`
		}
		got := outcomes(n)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", identity, d)
		}
	}
}

// A SKILL.md that is linked into two folders is a separate skill in each.
func TestALinkedFileIsNoLinkedFolder(t *testing.T) {
	t.Parallel()
	w := newFixture(t, keen, nil)
	w.put("shared/SKILL.md", skillFile("shared", "Text.\n"))
	w.put("one/a/x.md", "x")
	w.put("two/b/x.md", "x")
	w.link(filepath.Join("..", "..", "shared", "SKILL.md"), "one/a/SKILL.md")
	w.link(filepath.Join("..", "..", "shared", "SKILL.md"), "two/b/SKILL.md")
	var all listOf
	for i, name := range []string{"a", "b"} {
		all = append(all, metier.Head{Path: name, Location: w.at("shared/SKILL.md"), FileName: "SKILL.md", Kind: metier.KindSkill})
		w.roots = append(w.roots, metier.Mount{Label: name, Tier: policy.User, Root: w.at([]string{"one", "two"}[i]), Source: all[i:]})
	}
	if n := w.snapshot(); len(n.Skills()) != 2 {
		t.Errorf("%s", strings.Join(outcomes(n), "\n"))
	}
}

// A skill that names operating systems is available if one of them is the current one.
func TestSkillsForOtherSystems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		front string
		fits  bool // on linux
	}{
		{"platforms: [macos, windows]", false},
		{"platforms: darwin", false},
		{"platforms: [macOS, Linux]", true},
		{"platforms: [wsl2]", true},
		{"platforms: [posix]", true},
		{"platforms: [claude, cursor]", true}, // no systems
		{"platforms: [cursor, mac]", false},
		{"platforms: [any, mac]", true},
		{"os: [win32]", false},
		{"metadata:\n  platforms: [windows]", false},
		{"metadata: {openclaw: {emoji: x, os: [darwin]}}", false},
		{"metadata: {openclaw: {os: [darwin, linux]}}", true},
		{"metadata: {openclaw: {os: text}}", true},
		{"license: MIT", true},
	} {
		for _, filter := range []settings.PlatformFilter{settings.PlatformFilterRefuse, settings.PlatformFilterHide, settings.PlatformFilterOff} {
			w := newFixture(t, "default", nil)
			w.set.Parse.PlatformFilter = filter
			w.put("skills/s/SKILL.md", skillFile("s", "Text.\n", tt.front))
			m := w.mount("skills", policy.Project)
			m.OS = "linux"
			w.roots = []metier.Mount{m}
			sk := w.snapshot().All()[0]
			want := map[settings.PlatformFilter]metier.Status{settings.PlatformFilterRefuse: metier.Refused, settings.PlatformFilterHide: metier.Hidden}[filter]
			if tt.fits || want == "" {
				want = metier.Loaded
			}
			if e := w.snapshot().Explain(sk, metier.Catalog{}, nil); sk.State != want || want != metier.Loaded && e.Rule != "other-platform" {
				t.Errorf("%s under %s: %s by %s, want %s", tt.front, filter, sk.State, e.Rule, want)
			}
		}
	}
}

// A skill for another system does not keep a name from a matching one, unless it belongs to a more
// trusted tier.
func TestASkillForAnotherSystemYieldsTheName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		foreign, fitting policy.Tier
		want             metier.Status
	}{{policy.Project, policy.User, metier.Loaded}, {policy.Org, policy.Project, metier.Shadowed}} {
		w := newFixture(t, "default", nil)
		w.put("a/same/SKILL.md", skillFile("same", "Foreign.\n", "platforms: [plan9, windows]"))
		w.put("b/same/SKILL.md", skillFile("same", "Fitting.\n"))
		w.roots = []metier.Mount{w.mount("a", tt.foreign), w.mount("b", tt.fitting)}
		w.roots[0].OS = "linux"
		for _, sk := range w.snapshot().All() {
			if sk.ID.Source == "b" && sk.State != tt.want {
				t.Errorf("%s against %s: %s", tt.fitting, tt.foreign, sk.State)
			}
		}
	}
}

func TestProtectedNames_HiddenBuiltinYieldsToProject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		yields bool
		hidden bool
		other  policy.Tier
		want   policy.Tier
	}{
		{"hidden", true, true, policy.Project, policy.Project},
		{"hidden, user", true, true, policy.User, policy.User},
		{"hidden, third party", true, true, policy.ThirdParty, policy.Builtin},
		{"shown", true, false, policy.Project, policy.Builtin},
		{"hidden, kept", false, true, policy.Project, policy.Builtin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			w.set.Names.Precedence = []string{"third_party", "user", "project", "org", "builtin"}
			head := "---\nname: same\ndescription: Use it.\n"
			if tt.hidden {
				head += "disable-model-invocation: true\n"
			}
			w.put("builtin/same/SKILL.md", head+"---\n")
			w.put("other/same/SKILL.md", "---\nname: same\ndescription: Use it.\n---\n")
			builtin := w.mount("builtin", policy.Builtin)
			builtin.Yields = tt.yields
			w.roots = []metier.Mount{w.mount("other", tt.other), builtin}
			sk, err := w.snapshot().Find("same")
			if err != nil {
				t.Fatal(err)
			}
			if sk.Tier != tt.want {
				t.Errorf("the name belongs to tier %s, want %s", sk.Tier, tt.want)
			}
		})
	}
}

// A link in a project gives a skill of another root no other ID and tier.
func TestLinkedSkill_KeepsIDAndTierOfItsRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want policy.Tier }{
		{policy.Project, policy.User, policy.User},
		{policy.Project, policy.ThirdParty, policy.ThirdParty},
		{policy.Project, policy.Org, policy.Org},
		{policy.Project, policy.Project, policy.Project},
		{policy.User, policy.ThirdParty, policy.User}, // the user's own link
	} {
		w := newFixture(t, "default", nil)
		w.put("owner/same/SKILL.md", skillFile("same", "Text.\n"))
		w.put("linking/README.md", "Links.\n")
		w.link(w.at("owner"), "linking/x")
		d := w.set.Discover
		src, err := local.New(w.at("linking"), &local.Options{Scan: d.Scan, FileNames: d.FileNames, Symlinks: d.Symlinks, MaxDepth: d.MaxDepth, MaxDirs: d.MaxDirs, AllowedRoots: []string{w.at("owner")}})
		if err != nil {
			t.Fatal(err)
		}
		w.roots = []metier.Mount{{Label: "linking", Tier: c.first, Source: src, Root: w.at("linking")}, w.mount("owner", c.second)}
		sk, err := w.snapshot().Find("same")
		if err != nil {
			t.Fatal(err)
		}
		if sk.Tier != c.want {
			t.Errorf("a link of %s to a skill of %s: %s, tier %s", c.first, c.second, sk.ID, sk.Tier)
		}
	}
}
