package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/errorcodes"
)

var update = flag.Bool("update", false, "write the generated documents")

// errorsPage is docs/ERRORS.md.
func errorsPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Errors

After reading this page, you can handle any metier error in a script or a program. Every error has a
code, whose meaning never changes. For example, this error means that another process is working on
the run:

` + "```text" + `
metier: run: "runs/20260102-101500-abcd": another process is working on this run [run_locked]
  hint: wait for it to end or end it, then try again
` + "```" + `

With ` + "`--json`" + `, the same error is ` + "`{\"error\":{\"code\",\"message\",\"hint\",\"flag\"}}`" + `. In Go, it is a
` + "`*metier.Error`" + ` with Kind, Code, and Field. Field names the request field that caused it.

The kind of an error determines the command's exit status and the HTTP response status. Codes
without a kind are not error codes: they appear in tool results, at the end of runs, in record
problems, and in notices. ` + "`metier explain`" + ` explains skill diagnostic codes, such as
` + "`duplicate-skill-name`" + `.

| kind | exit status | HTTP status |
|---|--:|--:|
`)
	for _, k := range []metier.Kind{metier.Invalid, metier.NotFound, metier.Denied, metier.Approval, metier.Drift, metier.Conflict, metier.Unsupported,
		metier.LimitReached, metier.Unavailable, metier.Internal} {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", k, exitOf(k), k.HTTPStatus())
	}
	for _, g := range errorcodes.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| code | kind | exit | HTTP | meaning | fix |\n|---|---|--:|--:|---|---|\n", g.Title)
		for _, c := range g.Codes {
			var kinds, exits, statuses []string
			for k := range strings.SplitSeq(c.Kinds, ",") {
				if k == "" {
					continue
				}
				err := &metier.Error{Kind: metier.Kind(k), Code: c.Code}
				kinds = append(kinds, k)
				exits = append(exits, strconv.Itoa(problemOf(err).exit))
				statuses = append(statuses, strconv.Itoa(err.Kind.HTTPStatus()))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", c.Code, strings.Join(kinds, ", "), strings.Join(exits, ", "), strings.Join(statuses, ", "), c.Means, c.Fix)
		}
	}
	return b.Bytes()
}

func TestErrorsPage_IsTheRegistry(t *testing.T) {
	file := filepath.Join("..", "docs", "ERRORS.md")
	want := errorsPage()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/ERRORS.md is not current: make docs (-want +got):\n%s", diff)
	}
}
