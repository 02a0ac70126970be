package cli_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"metier/cli"
)

// shapeRow is a row of the table of JSON documents in docs/CLI.md.
var shapeRow = regexp.MustCompile("(?m)^\\| `([^`]+) --json` \\| `\\{([^`]+)\\}` \\|$")

// Runs each command of the table and compares the top-level keys of its output.
func TestJSONDocumentsHaveTheKeysThatThePageNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "CLI.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := shapeRow.FindAllSubmatch(page, -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows in the table of JSON documents", len(rows))
	}
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	if err := copyTree(filepath.Join("testdata", "ws"), ws); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(filepath.Join("testdata", "ws", "skills"), filepath.Join(dir, "shelf")); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		command, want := string(row[1]), strings.Split(strings.ReplaceAll(string(row[2]), `"`, ""), ",")
		var out, errs bytes.Buffer
		env := []string{"HOME=" + dir, "OLLAMA_HOST=127.0.0.1:1"}
		args := append(strings.Fields(command), "--json")
		if code := cli.Main(t.Context(), args, env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: ws}); code != 0 {
			t.Fatalf("%s: exit %d: %s", command, code, errs.String())
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out.String())
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(doc)); !slices.Equal(got, want) {
			t.Errorf("%s\nthe page: %s\nprinted:  %s", command, want, got)
		}
	}
}
