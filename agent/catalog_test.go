package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/event/eventtest"
	"metier/internal/digest"
	"metier/model/modeltest"
)

// recorded returns the events of one type in the run's log.
func recorded[T event.Event](w *fixture) []T {
	w.t.Helper()
	return eventtest.All[T](w.t, w.log)
}

// The catalog sent to the model is in the record, byte for byte, with its level of detail and the
// counts: in the system prompt or in the tool description, complete or shortened. It is in one
// place only.
//
// req: A-137
func TestCatalogOnTheWireIsTheOneOfTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values map[string]string
		rung   string
		omits  bool
	}{
		"beside the tool":   {map[string]string{"catalog_place": "tool", "catalog_budget": "0"}, "full", false},
		"in the prompt":     {map[string]string{"catalog_place": "system", "catalog_budget": "0"}, "full", false},
		"cut":               {map[string]string{"catalog_place": "system", "catalog_budget": "2500"}, "cut", false},
		"names":             {map[string]string{"catalog_place": "tool", "catalog_budget": "700"}, "names", false},
		"some of the names": {map[string]string{"catalog_place": "system", "catalog_budget": "200"}, "names", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", c.values)
			for i := range 40 {
				w.skill(fmt.Sprintf("s%02d", i), fmt.Sprintf("number %d <b> & \"quoted\" %s", i, strings.Repeat("and it goes on ", 20)), "Body.\n")
			}
			w.server.Say(modeltest.Turn{Text: "done"})
			w.run("go")
			all := recorded[event.CatalogSent](w)
			if len(all) != 1 {
				t.Fatalf("%d events: %+v", len(all), all)
			}
			e := all[0]
			text, err := w.log.Open(t.Context(), e.Text)
			if err != nil {
				t.Fatal(err)
			}
			r := w.server.Requests()[0]
			wire := r.System
			at := slices.IndexFunc(r.Tools, func(s modeltest.Tool) bool { return s.Name == "load_skill" })
			if at < 0 {
				t.Fatalf("tools: %+v", r.Tools)
			}
			other := r.Tools[at].Description
			if e.Place == "tool" {
				wire, other = other, wire
			}
			if e.Place != c.values["catalog_place"] || strings.Contains(other, "- s00") || strings.Contains(other, `"s00"`) {
				t.Errorf("its place is %s, and the other one says\n%s", e.Place, other)
			}
			if !strings.Contains(wire, string(text)) || digest.Bytes(text) != e.Text.Digest || len(text) < 200 {
				t.Errorf("recorded\n%s\nsent\n%s", text, wire)
			}
			if e.Rung != c.rung || e.Listed+e.Omitted < 40 || (e.Omitted > 0) != c.omits || e.Tokens == 0 || e.Search != "search_skills" || e.Budget > 0 && e.Tokens > e.Budget {
				t.Errorf("%+v", e)
			}
			// Rendering it again from the session gives the same text.
			if cat := w.sess.Catalog(t.Context()); cat.Text != string(text) || cat.Tokens != e.Tokens || len(cat.Entries) != e.Listed {
				t.Errorf("rendered again it is\n%s", cat.Text)
			}
			if offers := slices.ContainsFunc(r.Tools, func(s modeltest.Tool) bool { return s.Name == "search_skills" }); offers != (c.rung == "names") {
				t.Errorf("search_skills is offered: %v", offers)
			}
		})
	}
}

// A model can find and load a skill that its catalog omits.
func TestModelFindsALeftOutSkillAndLoadsIt(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", map[string]string{"catalog_budget": "200"})
	for i := range 40 {
		w.skill(fmt.Sprintf("s%02d", i), "does something else", "Body.\n")
	}
	w.skill("zebra", "paints stripes", "Paint them black.\n")
	n := 0
	w.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		switch n++; n {
		case 1:
			if strings.Contains(r.System+fmt.Sprint(r.Tools), "zebra") {
				t.Error("the catalog names it")
			}
			return call("search_skills", `{"query":"painting a stripe"}`)
		case 2:
			want(t, strings.Join(r.LastResults(), ""), "- zebra: paints stripes")
			return call("load_skill", `{"name":"zebra"}`)
		}
		want(t, strings.Join(r.LastResults(), ""), "Paint them black.")
		return modeltest.Turn{Text: "done"}
	})
	w.run("go")
	if n != 3 {
		t.Errorf("%d requests", n)
	}
}

// Without skills, the prompt is that of an agent that does not support skills.
//
// req: B-019
func TestWithoutSkillsNothingIsAdded(t *testing.T) {
	t.Parallel()
	var prompts []string
	for _, c := range []struct {
		values map[string]string
		broken bool // a skill is there that cannot be used
		off    bool // and one that the user disabled
	}{{}, {values: map[string]string{"catalog_format": "none", "catalog_place": "none", "activation": "none"}}, {broken: true}, {off: true}} {
		w := newFixture(t, "keen", c.values)
		if c.broken {
			w.file(".agents/skills/bad/SKILL.md", "---\nname: bad\ndescription: [no end\n---\n")
		}
		if c.off {
			w.skill("off", "is disabled", "x\n")
			w.off = []string{"off"}
		}
		w.server.Say(modeltest.Turn{Text: "done"})
		w.run("go")
		prompts = append(prompts, strings.ReplaceAll(w.system()[0], w.ws, "/ws"))
	}
	for i, prompt := range prompts {
		if diff := cmp.Diff(prompts[0], prompt); diff != "" || len(prompt) < 100 {
			t.Errorf("prompt %d has %d bytes (-without skills +this):\n%s", i, len(prompt), diff)
		}
	}
	if strings.Contains(strings.ToLower(prompts[0]), "skill") {
		t.Errorf("without skills the prompt speaks of them:\n%s", prompts[0])
	}
}

// With fifty skills of 20 KB each and none loaded, the request grows only by the catalog and the
// prompt's text about skills.
//
// req: A-001
func TestFiftySkillsCostTheCatalogAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile  string
		override map[string]string
		budget   int // in tokens
	}{
		"a budget of the operator":   {"cf-harness", map[string]string{"catalog_budget": "1500"}, 1500},
		"the default budget":         {"default", nil, 4000},
		"a limit of each entry only": {"cf-harness", nil, 50 * 1200 / 4}, // 1,024 characters of a description, and the name
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fiftySkills(t, c.profile, c.override, c.budget)
		})
	}
}

func fiftySkills(t *testing.T, profile string, override map[string]string, budget int) {
	size := func(skills int) (sent int, text string) {
		w := newFixture(t, profile, override)
		for i := range skills {
			w.skill(fmt.Sprintf("s%02d", i), "Does one thing. Use when that thing is asked for. "+strings.Repeat("More words. ", 120), strings.Repeat("Body of a skill.\n", 1200))
			w.file(fmt.Sprintf(".agents/skills/s%02d/references/doc.md", i), strings.Repeat("Reference of a skill.\n", 1000))
		}
		w.server.Say(modeltest.Turn{Text: "done"})
		w.run("go")
		r := w.server.Requests()[0]
		if body := string(r.Body); strings.Contains(body, "Body of a skill.") || strings.Contains(body, "Reference of a skill.") {
			t.Error("the first request carries a skill's files")
		}
		for _, e := range recorded[event.CatalogSent](w) {
			if e.Tokens > budget {
				t.Errorf("the catalog has %d tokens, over its budget", e.Tokens)
			}
			if b, err := w.log.Open(t.Context(), e.Text); err == nil {
				text = string(b)
			}
		}
		if in, sent := strings.Count(text, "Does one thing."), strings.Count(string(r.Body), "Does one thing."); in != sent || in == 0 {
			t.Errorf("the catalog has %d descriptions, the request %d", in, sent)
		}
		if got := recorded[event.SkillActivated](w); len(got) > 0 {
			t.Errorf("nothing was loaded, and these are active: %+v", got)
		}
		return len(r.Body), text
	}
	one, of1 := size(1)
	fifty, of50 := size(50)
	if of50 == "" || len(of50) > 4*budget {
		t.Fatalf("the catalog of fifty has %d bytes", len(of50))
	}
	// JSON escapes some of its letters, and the tool's schema lists the names.
	if grown, most := fifty-one, 2*(len(of50)-len(of1))+50*len(`"s00",`); grown > most {
		t.Errorf("fifty skills add %d bytes to a request, their catalog %d", grown, len(of50)-len(of1))
	}
}
