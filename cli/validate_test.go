package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
)

// Checks the advice on scripts: by shebang, otherwise by extension; any of several programs is
// enough.
func TestValidateAdvisesOnMissingInterpreters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"SKILL.md":                 "---\nname: s\ndescription: Holds scripts. Use when testing.\n---\n",
		"scripts/a.py":             "print()\n",
		"scripts/b.py":             "#!/usr/bin/env -S uv run --script\n",
		"scripts/c.txt":            "no script",
		"scripts/d.ts":             "x\n",
		"scripts/deep/e.sh":        "#!/opt/nowhere/bin/bash -e\r\n",
		"scripts/f":                "#!/opt/nowhere/bin/ghost\r\n",
		"scripts/g.py":             "#!/usr/bin/env X=1 python3\n",
		"scripts/h.rb":             "",
		"scripts/i.rb":             "\n",
		"scripts/j":                "#!\n",
		"scripts/node_modules/k.R": "x",
		"other/l.lua":              "x",
	} {
		p := filepath.Join(dir, "s", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]int{}
	has := func(p string) bool { asked[p]++; return p == "bash" || p == "bun" }
	var out, errs strings.Builder
	code := cli.MainHaving(t.Context(), []string{"validate", "--json", "s"}, nil, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir}, has)
	var doc struct {
		Results []struct {
			OK          bool
			Diagnostics []struct{ Severity, Code, Detail string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &doc); err != nil || code != 0 || !doc.Results[0].OK {
		t.Fatalf("exit %d, %v: %s%s", code, err, out.String(), errs.String())
	}
	var got []string
	for _, d := range doc.Results[0].Diagnostics {
		got = append(got, d.Severity+" "+d.Code+": "+d.Detail)
	}
	want := []string{
		"advice interpreter-missing: scripts/f needs /opt/nowhere/bin/ghost, which this machine does not have",
		"advice interpreter-missing: scripts/g.py needs python3, which this machine does not have",
		"advice interpreter-missing: scripts/a.py needs python3 or python, which this machine does not have",
		"advice interpreter-missing: scripts/h.rb and 1 other script need ruby, which this machine does not have",
		"advice interpreter-missing: scripts/b.py needs uv, which this machine does not have",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if asked["ruby"] != 1 {
		t.Errorf("ruby was looked for %d times", asked["ruby"])
	}
}
