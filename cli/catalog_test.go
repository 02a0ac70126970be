package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/cli"
	"metier/run"
)

// A run works with and without a catalog, and its policy snapshot says which it used.
//
// req: A-134
func TestPolicySnapshotSaysWhetherTheModelWasToldOfACatalog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags         []string
		disclosed     bool
		format, place string
	}{
		"catalog":                       {nil, true, "xml", "tool"},
		"catalog in the prompt":         {[]string{"--set", "catalog_place=system", "--set", "catalog_format=markdown"}, true, "markdown", "system"},
		"explicitly loaded skills only": {[]string{"--no-skill-catalog", "--skill", "greet"}, false, "xml", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, home, runs := filepath.Join(t.TempDir(), "ws"), t.TempDir(), t.TempDir()
			if err := copyTree(filepath.Join("testdata", "ws"), ws); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			args := append([]string{"run", "-f", "run.yaml", "--artifact-root", runs}, c.flags...)
			env := []string{"HOME=" + home, "OLLAMA_HOST=127.0.0.1:1"}
			if code := cli.Main(context.Background(), args, env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: ws}); code != 0 {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			files, err := filepath.Glob(filepath.Join(runs, "*", run.FilePolicySnapshot))
			if err != nil || len(files) != 1 {
				t.Fatalf("%d policy snapshots: %v", len(files), err)
			}
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			var snap run.PolicySnapshot
			if err := json.Unmarshal(b, &snap); err != nil {
				t.Fatal(err)
			}
			m := snap.CatalogMode
			if m.Disclosed != c.disclosed || m.Format != c.format || m.Place != c.place || (m.Digest != "") != c.disclosed || (m.Listed == 1) != c.disclosed {
				t.Errorf("catalog mode is %+v, want %+v", m, c)
			}
			told := catalogText(t, files[0])
			if told != (c.place == "tool") {
				t.Errorf("the tools name the skill: %v, and the place is %s", told, c.place)
			}
		})
	}
}

// catalogText reports whether what the model was offered describes the skill.
func catalogText(t *testing.T, beside string) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(beside), run.FileCapabilities))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(b, []byte("Write a short greeting"))
}
