package cli

import (
	"bytes"
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
