package run

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/digest"
)

// Registries with the same content are read once while one is in use. Each is printed as it would
// be alone.
func TestIndex_IsSharedAndPrintedAsARegistry(t *testing.T) {
	t.Parallel()
	var skills []string
	for i := range 3 {
		skills = append(skills, fmt.Sprintf(`{"id":"shop:s%d","name":"s%d <b>","resources":[],"diagnostics":[{"severity":"warning","code":"w%d"},{"severity":"advice","code":"a"}]}`, i, i, i))
	}
	content := []byte(`{"skillsRoot":"/s","sandboxSkillsRoot":"/skills","roots":[{"label":"shop"}],"skills":[` + strings.Join(skills, ",") +
		`],"others":[],"diagnostics":[{"severity":"error","code":"first"}]}`)
	name := digest.Bytes(content)
	first, err := indexOf(name, content)
	if err != nil {
		t.Fatal(err)
	}
	second, err := indexOf(name, content)
	if err != nil || first != second {
		t.Errorf("it was read twice, %v", err)
	}
	if len(first.skills) != 3 || first.place["shop:s2"] != 2 || len(first.severe) != 4 {
		t.Errorf("%d skills, places %v, severe %s", len(first.skills), first.place, first.severe)
	}
	r := first.list
	r.Type, r.Version, r.RunID, r.GeneratedAt = typeRegistry, 1, "run", "2026-01-01T00:00:00Z"
	want, err := printed(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := first.printed(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got.whole())); diff != "" {
		t.Errorf("(-printed +shared)\n%s", diff)
	}
	runtime.KeepAlive(first)
}
