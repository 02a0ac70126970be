package metier_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/policy"
)

// The folder /skills/NAME is that of the most trusted skill with this slug, and then that of the
// skill with this very name. A rule for a path means the same skill whatever others are called.
func TestSlugs_GoToTrustedSkillsFirst(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	for name, dir := range map[string]string{"-report": "project", "report": "user", ".notes": "project", "notes": "project"} {
		w.put(dir+"/"+name+"x/SKILL.md", "---\nname: \""+name+"\"\ndescription: Reports.\n---\nReport.\n")
	}
	w.roots = []metier.Mount{w.mount("project", policy.Project), w.mount("user", policy.User)}
	snap := w.snapshot()
	got := map[string]string{}
	for _, sk := range snap.All() {
		if sk.State == metier.Loaded {
			got[sk.Name] = sk.Slug
		}
	}
	want := map[string]string{"report": "report", "-report": "report-2", "notes": "notes", ".notes": "notes-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slugs (-want +got):\n%s", diff)
	}
}
