package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// generated is the description of a generated skill, as long as those of
// published skills.
func generated(i int) string {
	return fmt.Sprintf("Counts birds of kind %04d in notes, tables and photos, and writes a report of where and when they were seen. Use when birds of kind %04d are counted.", i, i)
}

// catalogs are how many of the generated skills a client's model must see at
// least, and whether with their descriptions. All of 1,000 skills do not fit
// the catalog's budget.
var catalogs = []struct {
	skills, names int
	described     bool
}{{6, 4, true}, {25, 23, true}, {1000, 300, false}}

// Reads in the model request what is left of the catalog after a client has
// passed it on.
func TestClients_ModelSeesTheCatalog(t *testing.T) {
	t.Parallel()
	alone(t)
	for _, c := range clients {
		for _, k := range catalogs {
			n := k.skills
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, `He said "one leg", <b>not</b> two.`)
				p.teach()
				for i := 2; i < n; i++ { // heron-notes and plain-words exist already
					p.write(fmt.Sprintf("skills/birds-%04d/SKILL.md", i), fmt.Sprintf("---\nname: birds-%04d\ndescription: %s\n---\nCount them.\n", i, generated(i)))
				}
				o := c.run(p, false)
				if err := o.judge(); err != nil {
					t.Errorf("%v\n%s", err, o.story())
				}
				var offer []byte
				for _, r := range o.model.seen() {
					if offer == nil && strings.HasPrefix(r.did, "the call") {
						offer = r.body
					}
				}
				names, described := 0, 0
				for i := 2; i < n; i++ {
					if bytes.Contains(offer, fmt.Appendf(nil, "birds-%04d", i)) {
						names++
					}
					if bytes.Contains(offer, []byte(generated(i))) {
						described++
					}
				}
				if names < k.names {
					t.Errorf("the model sees %d names, want %d\n%s", names, k.names, o.story())
				}
				if k.described && described < k.names {
					t.Errorf("the model sees %d descriptions, want %d\n%s", described, k.names, o.story())
				}
				if !k.described && !bytes.Contains(offer, []byte("search_skills")) {
					t.Errorf("the model does not see how to find the other skills\n%s", o.story())
				}
				t.Logf("%d names, %d descriptions", names, described)
			})
		}
	}
}

// The model reads a long skill to its end. No client may drop a part of it, and
// none may escape it.
func TestClients_ModelSeesLongSkillsWhole(t *testing.T) {
	t.Parallel()
	alone(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, `He said "one leg", <b>not</b> two.`)
			var body strings.Builder
			for i := 0; body.Len() < 100_000; i++ {
				fmt.Fprintf(&body, "Line %06d: \"herons\" & egrets <br>, – twice.\n", i)
			}
			p.write("skills/"+skill+"/SKILL.md", "---\nname: "+skill+"\ndescription: How to count herons. Use when birds are counted.\n---\n"+p.canary+"\n"+body.String())
			o := c.run(p, false)
			requests := o.model.seen()
			if len(requests) == 0 || o.err != nil {
				t.Fatalf("%v\n%s", o.err, o.story())
			}
			results := requests[len(requests)-1].asked.results
			all := strings.Join(results, "")
			missing := 0
			for line := range strings.Lines(body.String()) {
				if !strings.Contains(all, line) {
					missing++
				}
			}
			if missing > 0 || len(results) < 2 {
				t.Errorf("%d lines are missing in %d parts\n%s", missing, len(results), o.story())
			}
			t.Logf("%d parts", len(results))
		})
	}
}
