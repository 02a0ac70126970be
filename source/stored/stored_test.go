package stored_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/source/sourcetest"
	"metier/source/stored"
)

func TestSource_ListsAndOpensTexts(t *testing.T) {
	t.Parallel()
	s := stored.New(func(context.Context) ([]stored.Skill, error) {
		return []stored.Skill{{"b", sourcetest.Skill("b", "Does b.")}, {"a", sourcetest.Skill("a", "Does a.")}, {"a", "again"}, {"../x", "x"}, {"long", strings.Repeat("x", stored.MaxText+1)}}, nil
	})
	heads := sourcetest.List(t, s)
	if diff := cmp.Diff([]string{"../x", "a", "a", "b", "long"}, sourcetest.Paths(heads)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	var broken []bool
	for _, h := range heads {
		broken = append(broken, h.Broken)
	}
	if diff := cmp.Diff([]bool{true, false, true, false, true}, broken); diff != "" {
		t.Errorf("which are broken (-want +got):\n%s", diff)
	}
	b := sourcetest.Open(t, s, "b")
	f, err := b.Open(t.Context(), "SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(f); string(raw) != sourcetest.Skill("b", "Does b.") || err != nil {
		t.Errorf("SKILL.md is %q, %v", raw, err)
	}
	m, err := b.Manifest(t.Context())
	if err != nil || len(m.Files) != 1 || m.Files[0].Digest != b.Head().Digest || m.Tree == "" {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	for file, code := range map[string]string{"references/a.md": "skill_without_files", "../b": "resource_path_invalid"} {
		if _, err := b.Open(t.Context(), file); metier.CodeOf(err) != code {
			t.Errorf("Open(%s): %v, want %s", file, err, code)
		}
	}
	for path, code := range map[string]string{"c": "skill_not_found", "long": "skill_unusable"} {
		if _, err := s.Open(t.Context(), path); metier.CodeOf(err) != code {
			t.Errorf("Open(%s): %v, want %s", path, err, code)
		}
	}
}

func TestSource_ReportsAFailedQuery(t *testing.T) {
	t.Parallel()
	broken := errors.New("the connection is closed")
	s := stored.New(func(context.Context) ([]stored.Skill, error) { return nil, broken })
	if _, err := s.Open(t.Context(), "a"); metier.CodeOf(err) != "skills_unavailable" || !errors.Is(err, broken) {
		t.Errorf("Open: %v", err)
	}
	for _, err := range s.List(t.Context()) {
		if metier.CodeOf(err) != "skills_unavailable" {
			t.Errorf("List: %v", err)
		}
	}
}
