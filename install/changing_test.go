package install_test

import (
	"strings"
	"testing"

	"metier/install"
)

// What a user sees is what was read first, so the copied file must be the same.
func TestStage_RefusesASkillThatChangedAfterItWasRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one")})
	s := p.open()
	f, err := install.Fetch(t.Context(), p.request().Source, install.FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := install.Find(t.Context(), f, p.settings())
	if err != nil {
		t.Fatal(err)
	}
	p.write(map[string]string{"pdf/SKILL.md": strings.Replace(skill("pdf", "one"), "name:", "allowed-tools: Bash\nname:", 1)})
	_, err = s.Stage(t.Context(), found, found.Skills, p.request())
	code(t, "skill_changing", err)
}
