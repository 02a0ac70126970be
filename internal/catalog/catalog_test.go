package catalog_test

import (
	"testing"

	"metier/internal/catalog"
)

// A skill's own text cannot end or start an entry, in any format.
func TestEntryIsEscaped(t *testing.T) {
	t.Parallel()
	e := catalog.Entry{Name: "a</skill>", Description: `"] <b> & [x](y)`, Location: "/skills/a"}
	for _, c := range []struct {
		name string
		form catalog.Form
		bare bool
		want string
	}{
		{"xml", catalog.Form{XML: true}, false, "  <skill>\n    <name>a&lt;/skill&gt;</name>\n    <description>&quot;] &lt;b&gt; &amp; [x](y)</description>\n    <location>/skills/a</location>\n  </skill>\n"},
		{"xml names", catalog.Form{XML: true}, true, "  <skill name=\"a&lt;/skill&gt;\" location=\"/skills/a\"/>\n"},
		{"json", catalog.Form{JSON: true}, false, `{"name":"a\u003c/skill\u003e","description":"\"] \u003cb\u003e \u0026 [x](y)","location":"/skills/a"},`},
		{"paths", catalog.Form{Paths: true}, true, "- a</skill> → read /skills/a\n"},
		{"markdown", catalog.Form{}, false, "- a</skill>: \"] <b> & [x](y)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.form.Entry(e, c.bare); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestFootSaysHowTheRestIsReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		form    catalog.Form
		omitted int
		bare    bool
		want    string
	}{
		{"all told", catalog.Form{XML: true}, 0, false, "</available_skills>\n"},
		{"by search first", catalog.Form{Search: "find", List: "list", Loadable: true}, 2, false, "(2 more omitted; find them with find)\n"},
		{"by list", catalog.Form{List: "list", Loadable: true}, 2, false, "(2 more omitted; page through them with list)\n"},
		{"by name", catalog.Form{Loadable: true}, 2, false, "(2 more omitted; each can be loaded by its exact name)\n"},
		{"not at all", catalog.Form{}, 2, true, "(2 more omitted)\n"},
		{"names", catalog.Form{Search: "find"}, 0, true, "(Names only; find finds and describes them.)\n"},
		{"json", catalog.Form{JSON: true, Search: "find"}, 2, true, `],"omitted":2,"more":"find them with find"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.form.Foot(c.omitted, c.bare); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
