package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
)

// requiring returns a SKILL.md with metadata.
func requiring(name, metadata string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\nmetadata:\n  " + metadata + "\n---\nRead.\n"
}

// choose returns a request for some skills of the folder of sources.
func (p place) choose(names ...string) install.Request {
	return install.Request{Source: install.Source{Kind: install.Folder, Location: p.in}, Skills: names}
}

// dependencies returns what the lock says about what each skill requires.
func dependencies(s *install.Store) map[string]string {
	out := map[string]string{}
	for name, e := range s.Lock().Skills {
		text := strings.Join(e.Dependencies, " ")
		if len(e.Unmet) > 0 {
			text += "; unmet: " + strings.Join(e.Unmet, ", ")
		}
		if e.Required {
			text += "; required"
		}
		out[name] = text
	}
	return out
}

func TestPrepare_InstallsRequiredSkillsOfTheSameSource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{
		"pdf/SKILL.md": requiring("pdf", `requires: "docx >=1.2 <2, xml"`), "docx/SKILL.md": requiring("docx", "version: 1.3.0\n  requires: [xml]"),
		"xml/SKILL.md": skill("xml", ""), "other/SKILL.md": skill("other", ""),
	})
	s := p.open()
	plan, err := p.prepare(s, p.choose("pdf"))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{}
	for _, c := range plan.Changes {
		by[c.Name] = c.NeededBy
	}
	if diff := cmp.Diff(map[string][]string{"docx": {"pdf"}, "pdf": nil, "xml": {"pdf", "docx"}}, by); diff != "" {
		t.Errorf("what needs each skill (-want +got):\n%s", diff)
	}
	if err := plan.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"pdf": "docx xml", "docx": "xml; required", "xml": "; required"}
	if diff := cmp.Diff(want, dependencies(s)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
	if got := s.Lock().Skills["docx"].Version; got != "1.3.0" {
		t.Errorf("the version in the lock is %q", got)
	}

	// A skill that is chosen itself later is not left over when nothing requires it.
	plan, err = p.prepare(s, p.choose("docx"))
	apply(t, plan, err)
	plan, err = s.Remove(t.Context(), []string{"pdf"}, false)
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{"docx": "xml", "xml": "; required"}, dependencies(s)); diff != "" {
		t.Errorf("the lock after a removal (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestPrepare_RefusesRequirementsThatAreNotMet(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("s%d", i%3000))
	}
	chain := map[string]string{}
	for i := range 1_100 {
		chain[fmt.Sprintf("s%d/SKILL.md", i)] = requiring(fmt.Sprintf("s%d", i), fmt.Sprintf("requires: s%d", i+1))
	}
	ring := map[string]string{}
	for i := range 20 {
		ring[fmt.Sprintf("s%d/SKILL.md", i)] = requiring(fmt.Sprintf("s%d", i), fmt.Sprintf("requires: s%d", (i+1)%20))
	}
	for name, c := range map[string]struct {
		files       map[string]string
		choose      string
		code, about string
	}{
		"missing":           {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx")}, "pdf", "requirement_missing", `skill "pdf": it needs "docx", which is neither in `},
		"several":           {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: a, xml"), "xml/SKILL.md": requiring("xml", "requires: b"), "q/SKILL.md": skill("q", "")}, "pdf", "requirement_missing", `; skill "xml": it needs "b"`},
		"another source":    {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: acme/skills#docx")}, "pdf", "requirement_elsewhere", "nothing is fetched from there"},
		"old version":       {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: {docx: ^2}"), "docx/SKILL.md": requiring("docx", "version: 1.9")}, "pdf", "requirement_version", `it needs "docx ^2", but the source contains version 1.9`},
		"no version":        {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx ^2"), "docx/SKILL.md": skill("docx", "")}, "pdf", "requirement_version", "but the source contains a skill without a version"},
		"itself":            {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: pdf")}, "pdf", "requirement_cycle", "skills need each other: pdf → pdf"},
		"cycle":             {map[string]string{"a/SKILL.md": requiring("a", "requires: b"), "b/SKILL.md": requiring("b", "requires: c"), "c/SKILL.md": requiring("c", "requires: b")}, "a", "requirement_cycle", "skills need each other: b → c → b"},
		"long cycle":        {ring, "s0", "requirement_cycle", "s0 → s1 → s2 → s3 → s4 → (11 more) → s16 → s17 → s18 → s19 → s0"},
		"deep":              {chain, "s0", "requirement_limit", "more than 1,000 skills would be installed"},
		"many":              {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: "+strings.Join(many, ","))}, "pdf", "requirement_invalid", "it requires 10,000 skills; at most 256 are allowed"},
		"name":              {map[string]string{"pdf/SKILL.md": requiring("pdf", `requires: "Docx!"`)}, "pdf", "requirement_invalid", "is not the name of a skill"},
		"path":              {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: ../docx")}, "pdf", "requirement_invalid", "is not a source of skills on the web or in a repository"},
		"command":           {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: acme/skills/$(id)")}, "pdf", "requirement_invalid", "is not a source of skills"},
		"range":             {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx latest")}, "pdf", "requirement_invalid", "is not a version or a range"},
		"mixed letters":     {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: d\u043ecx"), "d\u043ecx/SKILL.md": skill("d\u043ecx", "")}, "pdf", "requirement_invalid", "metadata.requires contains"},
		"looks like others": {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: \u0430\u0435"), "\u0430\u0435/SKILL.md": skill("\u0430\u0435", ""), "ae/SKILL.md": skill("ae", "")}, "pdf", "requirement_invalid", `"ae"`},
		"two of one name":   {map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx"), "x/docx/SKILL.md": skill("docx", ""), "y/docx/SKILL.md": skill("docx", "")}, "pdf", "skill_ambiguous", "the source contains 2 skills with this name: x/docx and y/docx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(c.files)
			s := p.open()
			_, err := p.prepare(s, p.choose(c.choose))
			if got := metier.CodeOf(err); got != c.code || !strings.Contains(fmt.Sprint(err), c.about) {
				t.Errorf("Prepare: %v [%s], want %s about %q", err, got, c.code, c.about)
			}
			p.empty()
		})
	}
}

func TestPrepare_SkipsRequirementsOnRequest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx, xml, acme/skills#x"), "docx/SKILL.md": skill("docx", "")})
	s := p.open()
	r := p.choose("pdf")
	r.SkipRequirements = true
	plan, err := p.prepare(s, r)
	apply(t, plan, err)
	if diff := cmp.Diff([]string{"pdf requires docx, xml, acme/skills#x, which is not installed"}, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"pdf": "; unmet: acme/skills#x, docx, xml"}, dependencies(s)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}

	// An update accepts what was accepted, and installs what the source contains.
	plan, err = s.Update(t.Context(), nil, false, defaults(t))
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{"pdf": "docx; unmet: acme/skills#x, xml", "docx": "; required"}, dependencies(s)); diff != "" {
		t.Errorf("the lock after an update (-want +got):\n%s", diff)
	}
}

func TestPrepare_ReplacesNoOtherSkillForARequirement(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"mine/docx/SKILL.md": skill("docx", "Mine."), "theirs/pdf/SKILL.md": requiring("pdf", "requires: docx"), "theirs/docx/SKILL.md": skill("docx", "Theirs.")})
	s := p.open()
	mine := install.Request{Source: install.Source{Kind: install.Folder, Location: filepath.Join(p.in, "mine")}}
	plan, err := p.prepare(s, mine)
	apply(t, plan, err)
	theirs := install.Request{Source: install.Source{Kind: install.Folder, Location: filepath.Join(p.in, "theirs")}, Skills: []string{"pdf"}, Force: true}
	if _, err := p.prepare(s, theirs); metier.CodeOf(err) != "skill_of_other_source" {
		t.Errorf("Prepare: %v, want skill_of_other_source", err)
	}
	theirs.Skills = append(theirs.Skills, "docx") // a choice of the user
	plan, err = p.prepare(s, theirs)
	apply(t, plan, err)
	if raw, err := os.ReadFile(filepath.Join(p.dir, "docx/SKILL.md")); err != nil || !strings.Contains(string(raw), "Theirs.") {
		t.Errorf("the chosen skill is %q, %v", raw, err)
	}
}

func TestPrepare_AcceptsInstalledSkillsOfOtherSources(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := newOrigin(t)
	o.commit(map[string]string{"docx/SKILL.md": requiring("docx", "version: 2.1")})
	url := o.source("", "").Location
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source("", ""), All: true})
	apply(t, plan, err)
	p.write(map[string]string{"a/SKILL.md": requiring("a", "requires: docx ^2"), "b/SKILL.md": requiring("b", "requires: "+url+"#docx ^2"), "c/SKILL.md": requiring("c", "requires: "+url+"#docx ^3")})
	plan, err = p.prepare(s, p.choose("a", "b"))
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{"docx": "", "a": "docx", "b": "docx"}, dependencies(s)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
	if _, err := p.prepare(s, p.choose("c")); metier.CodeOf(err) != "requirement_version" {
		t.Errorf("Prepare: %v, want requirement_version", err)
	}
}

func TestRemove_KeepsSkillsThatOthersRequire(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx"), "docx/SKILL.md": requiring("docx", "requires: xml"), "xml/SKILL.md": skill("xml", "")})
	s := p.open()
	plan, err := p.prepare(s, p.choose("pdf"))
	apply(t, plan, err)
	if _, err := s.Remove(t.Context(), []string{"docx"}, false); metier.CodeOf(err) != "skill_required" || !strings.Contains(err.Error(), "pdf requires docx") {
		t.Errorf("Remove: %v, want skill_required about pdf", err)
	}
	plan, err = s.Remove(t.Context(), []string{"docx"}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pdf requires docx", "no skill requires xml any more; 'metier remove xml' removes what is left over"}
	if diff := cmp.Diff(want, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if err := plan.Discard(); err != nil {
		t.Fatal(err)
	}
	plan, err = s.Remove(t.Context(), []string{"pdf"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"no skill requires docx, xml any more; 'metier remove docx xml' removes what is left over"}, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	apply(t, plan, nil)
	plan, err = s.Remove(t.Context(), []string{"docx", "xml"}, false)
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{}, dependencies(s)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
}

func TestUpdate_FollowsRequirements(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := newOrigin(t)
	o.commit(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx"), "docx/SKILL.md": skill("docx", ""), "xml/SKILL.md": skill("xml", "")})
	s := p.openWith(install.Options{Env: o.env()})
	r := install.Request{Source: o.source("", ""), Skills: []string{"pdf"}}
	plan, err := p.prepare(s, r)
	apply(t, plan, err)
	o.commit(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: xml"), "docx/SKILL.md": skill("docx", ""), "xml/SKILL.md": skill("xml", "")})
	plan, err = s.Update(t.Context(), nil, false, defaults(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]install.Action{"pdf": install.Replace, "docx": install.Keep, "xml": install.Add}, actions(plan)); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"no skill requires docx any more; 'metier remove docx' removes what is left over"}, plan.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for _, c := range plan.Changes {
		if c.Name != "pdf" {
			continue
		}
		d, err := plan.Diff(c)
		if diff := cmp.Diff([][]string{{"xml"}, {"docx"}}, [][]string{d.Requires, d.Releases}); diff != "" || err != nil {
			t.Errorf("what changes (-want +got), %v:\n%s", err, diff)
		}
	}
	apply(t, plan, nil)

	// The lock has everything that a frozen installation needs.
	before := s.Lock().Bytes()
	if err := os.RemoveAll(filepath.Join(p.dir, "xml")); err != nil {
		t.Fatal(err)
	}
	plan, err = s.Restore(t.Context(), true, defaults(t))
	apply(t, plan, err)
	if diff := cmp.Diff(string(before), string(s.Lock().Bytes())); diff != "" {
		t.Errorf("the lock changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]install.State{"pdf": install.Intact, "docx": install.Intact, "xml": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("the states (-want +got):\n%s", diff)
	}

	// A requirement that cannot be met changes nothing.
	o.commit(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: gone"), "docx/SKILL.md": skill("docx", ""), "xml/SKILL.md": skill("xml", "")})
	if _, err := s.Update(t.Context(), nil, false, defaults(t)); metier.CodeOf(err) != "requirement_missing" {
		t.Errorf("Update: %v, want requirement_missing", err)
	}
}

func TestIndex_InstallsRequiredSkills(t *testing.T) {
	t.Parallel()
	p, web := newPlace(t), newSite(t)
	var entries []map[string]any
	for _, e := range [][2]string{{"pdf", requiring("pdf", "requires: docx")}, {"docx", requiring("docx", "requires: xml")}, {"xml", skill("xml", "")}, {"other", skill("other", "")}} {
		web.put(newFolder+e[0]+".md", e[1])
		entries = append(entries, offered(e[0], "skill-md", e[0]+".md", e[1]))
	}
	web.offer(t, schema, entries...)
	s := p.open()
	plan, err := p.prepare(s, install.Request{Source: web.source("pdf")})
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]string{"pdf": "docx", "docx": "xml; required", "xml": "; required"}, dependencies(s)); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
	plan, err = s.Update(t.Context(), nil, false, defaults(t))
	apply(t, plan, err)
	if diff := cmp.Diff(map[string]install.Action{"pdf": install.Keep, "docx": install.Keep, "xml": install.Keep}, actions(plan)); diff != "" {
		t.Errorf("the plan of an update (-want +got):\n%s", diff)
	}
}

func TestLock_WithADependencyThatIsNotInIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "")})
	s := p.open()
	p.add(s)
	text := strings.Replace(string(s.Lock().Bytes()), `"tree"`, `"dependencies": ["docx"], "tree"`, 1)
	if err := os.WriteFile(p.lock, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := install.ReadLock(p.lock); metier.CodeOf(err) != "lock_invalid" {
		t.Errorf("ReadLock: %v, want lock_invalid", err)
	}
}

func TestPrepare_ReplacesNoModifiedSkillForARequirement(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": requiring("pdf", "requires: docx ^2"), "docx/SKILL.md": requiring("docx", "version: 1.0.0")})
	s := p.open()
	plan, err := p.prepare(s, p.choose("docx"))
	apply(t, plan, err)
	p.put(filepath.Join(p.dir, "docx", "SKILL.md"), skill("docx", "Mine."))
	p.write(map[string]string{"docx/SKILL.md": requiring("docx", "version: 2.0.0")})
	r := p.choose("pdf")
	r.Force = true
	if _, err := p.prepare(s, r); metier.CodeOf(err) != "skill_modified" || !strings.Contains(fmt.Sprint(err), "it is needed by pdf") {
		t.Errorf("Prepare: %v, want skill_modified", err)
	}
}

func TestPrepare_ReplacesNoPinnedSkillForARequirement(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := newOrigin(t)
	first := o.commit(map[string]string{"docx/SKILL.md": requiring("docx", "version: 1.0.0")})
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source(first, "")})
	apply(t, plan, err)
	o.commit(map[string]string{"docx/SKILL.md": requiring("docx", "version: 2.0.0"), "pdf/SKILL.md": requiring("pdf", "requires: docx ^2"), "xml/SKILL.md": requiring("xml", "requires: docx ^1")})
	if _, err := p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"pdf"}}); metier.CodeOf(err) != "skill_of_other_source" {
		t.Errorf("Prepare: %v, want skill_of_other_source", err)
	}
	plan, err = p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"xml"}})
	apply(t, plan, err)
	if got := s.Lock().Skills["docx"].Version; got != "1.0.0" {
		t.Errorf("docx has the version %s", got)
	}
}
