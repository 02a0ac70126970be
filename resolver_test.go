package metier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/settings"
)

// req: C-057
func TestResolverLoadsOnDemandAndLogsReads(t *testing.T) {
	t.Parallel()
	w := traced(t, runtimeProf, runtimeFiles())
	load, resource := w.tools()
	w.put("skills/secret", "canary-secret")
	if opens := w.trace.taken(); len(opens) != 0 {
		t.Errorf("opened before anything was asked for: %v", opens)
	}
	mentions(t, w.works(load, args{"name": "one"}).Text(), "Body of one.")
	if opens := slices.Compact(w.trace.taken()); !slices.Equal(opens, []string{"one/SKILL.md"}) {
		t.Errorf("loading one opened %v", opens)
	}
	acts := events[event.SkillActivated](w)
	if len(acts) != 1 || acts[0].SkillID != "skills:one" || acts[0].Hash != digest.Bytes([]byte(skillFile("one", "Body of one.\n"))) {
		t.Errorf("activations in the log: %+v", acts)
	}

	// A resource is opened when it is read, and nothing outside the skill is
	// opened.
	mentions(t, w.works(resource, args{"skill": "one", "path": "references/a.md"}).Text(), "canary-reference")
	w.fails("resource_path_invalid", resource, args{"skill": "one", "path": "../secret"})
	w.fails("resource_not_found", resource, args{"skill": "one", "path": "references/none.md"})
	w.fails("resource_path_invalid", resource, args{"skill": "one", "path": w.at("skills/secret")})
	w.link("../secret", "skills/one/leak")
	w.fails("resource_outside_root", resource, args{"skill": "one", "path": "leak"})
	for _, s := range w.trace.taken() {
		if strings.Contains(s, "sub/b.md") || strings.Contains(s, "assets") || strings.Contains(s, "secret") || !strings.HasPrefix(s, "one/") {
			t.Errorf("reading references/a.md opened %s", s)
		}
	}
	silent(t, w.said(), "canary-secret")
	var got [][5]string
	for _, e := range events[event.ResourceRead](w) {
		got = append(got, [5]string{e.SkillID, e.Path, e.Status, e.Code, e.ObservedDigest})
	}
	if diff := cmp.Diff([][5]string{{"skills:one", "references/a.md", "read", "", digest.Bytes([]byte("canary-reference"))}, {"skills:one", "../secret", "error", "resource_path_invalid", ""},
		{"skills:one", "references/none.md", "error", "resource_not_found", ""}, {"skills:one", w.at("skills/secret"), "error", "resource_path_invalid", ""}, {"skills:one", "leak", "error", "resource_outside_root", ""}}, got); diff != "" {
		t.Errorf("reads in the log (-want +got)\n%s", diff)
	}
}

// Of several skills with one name, the first has it, by the order of the roots, then by path. The
// others stay listed and say which skill shadows them.
//
// req: A-173
func TestOneOfANameIsUsed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, settings.DefaultProfile, map[string]string{
		"one/b/same/SKILL.md": skillFile("same", "One, b.\n"), "one/a/SKILL.md": skillFile("other", "One, a.\n"),
		"two/a/same/SKILL.md": skillFile("same", "Two, a.\n"), "two/b/SAME/SKILL.md": skillFile("SAME", "Two, b.\n"), "two/c/SKILL.md": skillFile("only", "Two, c.\n"),
	})
	for name, c := range map[string]struct {
		roots []string
		want  map[string]string // ID: by whom it is shadowed, "" for loaded
	}{
		"one first": {[]string{"one", "two"}, map[string]string{"one:a": "", "one:b/same": "", "two:a/same": "one:b/same", "two:b/SAME": "one:b/same", "two:c": ""}},
		"two first": {[]string{"two", "one"}, map[string]string{"one:a": "", "one:b/same": "two:a/same", "two:a/same": "", "two:b/SAME": "two:a/same", "two:c": ""}},
		"two alone": {[]string{"two"}, map[string]string{"two:a/same": "", "two:b/SAME": "two:a/same", "two:c": ""}},
	} {
		w.roots = nil
		for _, r := range c.roots {
			m := w.mount(r, "project")
			m.Label = r
			w.roots = append(w.roots, m)
		}
		got := map[string]string{}
		for _, sk := range w.snapshot().All() {
			got[sk.ID.String()] = ""
			if sk.State == metier.Shadowed {
				got[sk.ID.String()] = sk.ShadowedBy.String()
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
