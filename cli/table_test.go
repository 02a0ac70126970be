package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableFit_CutsOneColumn(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		0:  "RUN  TASK                           PROBLEM\na    count all the words of a book\nb                                   torn\n",
		31: "RUN  TASK                       PROBLEM\na    count all the words of a…\nb                               torn\n",
		10: "RUN  TASK                  PROBLEM\na    count all the words…\nb                          torn\n",
	} {
		list := table{heads: []string{"RUN", "TASK", "PROBLEM"}}
		list.add("a", "count all the words of a book", "")
		list.add("b", "", "torn")
		list.fit(1, width)
		var out bytes.Buffer
		list.print(&out, "")
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in          string
		first, rest int
		want        []string
	}{
		"short":       {"one two", 10, 5, []string{"one two"}},
		"empty":       {"", 10, 5, []string{""}},
		"at spaces":   {"one two three", 9, 5, []string{"one two", "three"}},
		"exact":       {"one two three", 7, 5, []string{"one two", "three"}},
		"long word":   {"abcdefghij", 4, 3, []string{"abcd", "efg", "hij"}},
		"wide":        {"日本語 日本", 6, 4, []string{"日本語", "日本"}},
		"too narrow":  {"日本", 1, 1, []string{"日", "本"}},
		"many spaces": {"a     b", 3, 3, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wrap(c.in, c.first, c.rest)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if strings.ReplaceAll(strings.Join(got, ""), " ", "") != strings.ReplaceAll(c.in, " ", "") {
				t.Errorf("%q lost text", got)
			}
		})
	}
}
