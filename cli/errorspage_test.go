package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

Use this page to handle metier errors in a script or a program. Every error has a code, and the
meaning of a code never changes. For example, this error means that another process is working on
the run:

` + "```text" + `
metier: run: "runs/20260102-101500-abcd": another process is working on this run [run_locked]
  hint: wait for that process to end, or stop it, then try again
` + "```" + `

With ` + "`--json`" + `, the same error is ` + "`{\"error\":{\"code\",\"message\",\"hint\",\"flag\"}}`" + `. In Go, it is a
` + "`*metier.Error`" + ` with Kind, Code, and Field. Field is the request field that caused the error.

The kind of an error determines the command's exit status and the HTTP response status. Codes
with an exit status but no kind occur only in command errors. Codes with neither appear in tool
results, run results, record problems, and notices. A command whose run ends with such a code exits
with 1. ` + "`metier explain`" + ` explains skill diagnostic codes, such as ` + "`duplicate-skill-name`" + `.

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
			exit := strings.Join(exits, ", ")
			if own, known := errorcodes.Exit(c.Code); known {
				exit = own
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", c.Code, strings.Join(kinds, ", "), exit, strings.Join(statuses, ", "), c.Means, c.Fix)
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

// The errors that only commands have are registered with the exit statuses that the source gives
// them.
func TestErrorCodes_HaveTheirExitStatus(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]int{"exitFailed": exitFailed, "exitUsage": exitUsage, "exitDenied": exitDenied, "exitNotFound": exitNotFound, "exitDrift": exitDrift,
		"exitSandbox": exitSandbox, "exitWaiting": exitWaiting, "exitInterrupted": exitInterrupted}
	found := map[string][]int{}
	add := func(code string, exit int) {
		if !slices.Contains(found[code], exit) {
			found[code] = append(found[code], exit)
		}
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil || strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`wrong\("([a-z_]+)"`).FindAllSubmatch(src, -1) {
			add(string(m[1]), exitUsage)
		}
		for _, m := range regexp.MustCompile(`exit: (exit\w+)[^\n]*?code: "([a-z_]+)"`).FindAllSubmatch(src, -1) {
			add(string(m[2]), status[string(m[1])])
		}
	}
	for code, exits := range found {
		c, _ := errorcodes.Of(code)
		if c.Kinds != "" {
			continue // it follows from the kind
		}
		slices.Sort(exits)
		want := strings.Trim(strings.ReplaceAll(fmt.Sprint(exits), " ", ", "), "[]")
		got, _ := errorcodes.Exit(code)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("exit status of %s (-source +registered):\n%s", code, diff)
		}
	}
}
