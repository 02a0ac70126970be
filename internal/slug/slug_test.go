package slug_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/slug"
)

func TestAdd_MakesSafeSegments(t *testing.T) {
	t.Parallel()
	var set slug.Set
	for _, c := range [][2]string{
		{"greet", "greet"}, {"Greet", "Greet-2"}, {"../../etc/passwd", "etc-passwd"}, {"a b\nc", "a-b-c"}, {"été", "été"},
		{"..", "skill"}, {"", "skill-2"}, {strings.Repeat("é", 80), strings.Repeat("é", 50)},
	} {
		if diff := cmp.Diff(c[1], set.Add(c[0])); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c[0], diff)
		}
	}
}

func TestAdd_TakesTheFirstFreeNumber(t *testing.T) {
	t.Parallel()
	var set slug.Set
	var got []string
	for _, name := range []string{"a-3", "a", "A", "a", "a-2", "a", "b", "b-2", "b"} {
		got = append(got, set.Add(name))
	}
	want := []string{"a-3", "a", "A-2", "a-4", "a-2-2", "a-5", "b", "b-2", "b-3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Counting up from 2 for each name would take hours here.
func TestAdd_CostDoesNotGrowWithEqualNames(t *testing.T) {
	t.Parallel()
	const count = 200_000
	var set slug.Set
	for range count - 1 {
		set.Add("★")
	}
	if diff := cmp.Diff(fmt.Sprintf("skill-%d", count), set.Add("☆")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
