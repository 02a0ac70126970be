package runtimes_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/runtimes"
)

// everywhere finds every program in /usr/bin except those named.
func everywhere(but ...string) func(string) (string, bool) {
	return func(p string) (string, bool) {
		if slices.Contains(but, p) {
			return "", false
		}
		if filepath.IsAbs(p) {
			return p, true
		}
		return "/usr/bin/" + p, true
	}
}

func request(entry, code string, change ...func(*runtimes.Request)) runtimes.Request {
	r := runtimes.Request{Entry: entry, Dir: "/skills/demo", Code: []byte(code), Args: []string{"-x", "$(id)"}, Runtimes: runtimes.Names(), Find: everywhere("uv")}
	for _, c := range change {
		c(&r)
	}
	return r
}

// codeOf returns the code of a refusal, or "".
func codeOf(err error) string {
	if r, is := errors.AsType[*runtimes.Refusal](err); is {
		return r.Code
	}
	return ""
}

func onStdin(r *runtimes.Request) { r.Stdin = true }

func TestPlan(t *testing.T) {
	t.Parallel()
	in := "/skills/demo/"
	for _, tt := range []struct {
		entry, code string
		argv        []string
	}{
		{"scripts/a.sh", "#!/bin/bash\n", []string{"/usr/bin/bash", "--noprofile", "--norc", "--", in + "scripts/a.sh"}},
		{"scripts/a", "#!/usr/bin/env bash\r\n", []string{"/usr/bin/bash", "--noprofile", "--norc", "--", in + "scripts/a"}},
		{"scripts/a", "\xef\xbb\xbf#!/bin/bash -eu\n", []string{"/usr/bin/bash", "--noprofile", "--norc", "-eu", "--", in + "scripts/a"}},
		{"scripts/a", "#!/opt/evil/bash\n", []string{"/usr/bin/bash", "--noprofile", "--norc", "--", in + "scripts/a"}}, // ours, not theirs
		{"scripts/a.sh", "echo\n", []string{"/usr/bin/bash", "--noprofile", "--norc", "--", in + "scripts/a.sh"}},
		{"scripts/a.py", "#!/bin/sh\n", []string{"/usr/bin/sh", "--", in + "scripts/a.py"}}, // the first line wins
		{"scripts/a.PY", "x=1\n", []string{"/usr/bin/python3", "-E", "-s", "-B", in + "scripts/a.PY"}},
		{"scripts/a", "#!/usr/bin/env -S python3 -u\n", []string{"/usr/bin/python3", "-E", "-s", "-B", "-u", in + "scripts/a"}},
		{"scripts/a.ts", "", []string{"/usr/bin/deno", "run", "--no-prompt", "--no-remote", "--no-npm", "--no-config", in + "scripts/a.ts"}},
		{"scripts/a.ts", "#!/usr/bin/env -S deno run --allow-read\n", []string{"/usr/bin/deno", "run", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--allow-read", in + "scripts/a.ts"}},
		{"scripts/a.js", "", []string{"/usr/bin/node", in + "scripts/a.js"}},
		{"scripts/a.rb", "", []string{"/usr/bin/ruby", "--disable=gems,rubyopt", in + "scripts/a.rb"}},
		{"scripts/a.pl", "", []string{"/usr/bin/perl", "--", in + "scripts/a.pl"}},
		{"scripts/a.go", "", []string{"/usr/bin/go", "run", in + "scripts/a.go"}},
		{"scripts/a.ps1", "", []string{"/usr/bin/pwsh", "-NoProfile", "-NonInteractive", "-File", in + "scripts/a.ps1"}},
		{"scripts/a", "#!/usr/bin/awk -f\n", []string{"/usr/bin/awk", "-f", in + "scripts/a"}},
	} {
		c, err := runtimes.Plan(request(tt.entry, tt.code))
		if err != nil {
			t.Errorf("%s %q: %v", tt.entry, tt.code, err)
			continue
		}
		if diff := cmp.Diff(append(tt.argv, "-x", "$(id)"), c.Argv); diff != "" {
			t.Errorf("%s %q: %s", tt.entry, tt.code, diff)
		}
	}
	c, err := runtimes.Plan(request("scripts/tool", "\x7fELF…", func(r *runtimes.Request) { r.Exec = true }))
	if err != nil || !slices.Equal(c.Argv, []string{in + "scripts/tool", "-x", "$(id)"}) {
		t.Errorf("a program: %v, %v", c.Argv, err)
	}
}

// req
func TestRefused(t *testing.T) {
	t.Parallel()
	only := func(names ...string) func(*runtimes.Request) {
		return func(r *runtimes.Request) { r.Runtimes = names }
	}
	for name, tt := range map[string]struct {
		r    runtimes.Request
		code string
		says string
	}{
		"nothing says what":           {request("scripts/a", "echo\n", func(r *runtimes.Request) { r.Exec = true }), runtimes.CodeUnsupported, "#!"},
		"a program, mode off":         {request("scripts/a", "\x7fELF"), runtimes.CodeUnsupported, "#!"},
		"not allowed":                 {request("scripts/a.py", "", only("bash", "deno")), runtimes.CodeUnsupported, "python"},
		"executables are off":         {request("scripts/a", "#!/usr/bin/awk -f\n", only("bash")), runtimes.CodeUnsupported, "awk"},
		"not there":                   {request("scripts/a.rb", "", func(r *runtimes.Request) { r.Find = everywhere("ruby") }), runtimes.CodeInterpreter, "ruby"},
		"relative interpreter":        {request("scripts/a", "#!bin/bash\n"), runtimes.CodeUnsupported, "relative"},
		"env sets a variable":         {request("scripts/a", "#!/usr/bin/env -S LD_PRELOAD=x bash\n"), runtimes.CodeUnsupported, "env"},
		"env unsets":                  {request("scripts/a", "#!/usr/bin/env -i bash\n"), runtimes.CodeUnsupported, "env"},
		"env with a path":             {request("scripts/a", "#!/usr/bin/env ./bash\n"), runtimes.CodeUnsupported, "path"},
		"env alone":                   {request("scripts/a", "#!/usr/bin/env\n"), runtimes.CodeUnsupported, "env"},
		"quotes":                      {request("scripts/a", "#!/usr/bin/env -S bash -c 'id'\n"), runtimes.CodeUnsupported, "quotes"},
		"too long":                    {request("scripts/a", "#!/bin/bash "+strings.Repeat("x", 300)+"\n"), runtimes.CodeUnsupported, "255"},
		"too many words":              {request("scripts/a", "#!/bin/bash "+strings.Repeat("x ", 20)+"\n"), runtimes.CodeUnsupported, "16"},
		"a control character":         {request("scripts/a", "#!/bin/ba\x1bsh\n"), runtimes.CodeUnsupported, "0x1b"},
		"go, a source file":           {request("scripts/a.go", "", func(r *runtimes.Request) { r.Args = []string{"b.go", "c"} }), runtimes.CodeUnsupported, "b.go"},
		"stdin: python":               {request("scripts/a.py", "", onStdin), runtimes.CodeUnsupported, "python"},
		"stdin: awk":                  {request("scripts/a", "#!/usr/bin/awk -f\n", onStdin), runtimes.CodeUnsupported, "executable"},
		"stdin: no shebang":           {request("scripts/a.sh", "echo\n", onStdin), runtimes.CodeUnsupported, "shebang"},
		"stdin: sh":                   {request("scripts/a.sh", "#!/bin/sh\n", onStdin), runtimes.CodeUnsupported, "sh"},
		"stdin: flags":                {request("scripts/a.sh", "#!/bin/bash -e\n", onStdin), runtimes.CodeUnsupported, "-e"},
		"stdin: source":               {request("scripts/a.sh", "#!/bin/bash\nif x; then source ./h.sh; fi\n", onStdin), runtimes.CodeUnsupported, "./h.sh"},
		"stdin: dot":                  {request("scripts/a.sh", "#!/bin/bash\n. ../h.sh\n", onStdin), runtimes.CodeUnsupported, "../h.sh"},
		"stdin: quoted source":        {request("scripts/a.sh", "#!/bin/bash\nbuiltin \"source\" './h.sh'\n", onStdin), runtimes.CodeUnsupported, "./h.sh"},
		"stdin: computed source":      {request("scripts/a.sh", "#!/bin/bash\nhere=$(dirname \"${BASH_SOURCE[0]}\")\nsource \"$here/h.sh\"\n", onStdin), runtimes.CodeUnsupported, "by the path of the script"},
		"stdin: source by variable":   {request("scripts/a.sh", "#!/bin/bash\n. \"$SKILL_DIR/scripts/h.sh\"\n", onStdin), runtimes.CodeUnsupported, "by the path of the script"},
		"stdin: source beside itself": {request("scripts/a.sh", "#!/bin/bash\n. \"${0%/*}/h.sh\"\n", onStdin), runtimes.CodeUnsupported, "by the path of the script"},
		"stdin: not bash":             {request("scripts/a.sh", "#!/bin/bash\nif\n", onStdin), runtimes.CodeUnsupported, "understand"},
		"stdin: static import":        {request("scripts/a.ts", "import {x} from './x.ts'", onStdin), runtimes.CodeUnsupported, "./x.ts"},
		"stdin: bare import":          {request("scripts/a.ts", `import "../x.ts"`, onStdin), runtimes.CodeUnsupported, "../x.ts"},
		"stdin: dynamic import":       {request("scripts/a.ts", "const x = await import ( `./x.ts` )", onStdin), runtimes.CodeUnsupported, "./x.ts"},
		"stdin: re-export":            {request("scripts/a.ts", "export * from\n/* c */ \"./x.ts\"", onStdin), runtimes.CodeUnsupported, "./x.ts"},
		"stdin: require":              {request("scripts/a.ts", "const x = require('./x.cjs')", onStdin), runtimes.CodeUnsupported, "./x.cjs"},
		"stdin: json":                 {request("scripts/a.ts", `import s from "/etc/passwd" with {type: "text"}`, onStdin), runtimes.CodeUnsupported, "/etc/passwd"},
		"stdin: escaped":              {request("scripts/a.ts", `import "\x2e/x.ts"`, onStdin), runtimes.CodeUnsupported, "./x.ts"},
		"stdin: after a regexp":       {request("scripts/a.ts", "const r = /[\"'`/]/; import './x.ts'", onStdin), runtimes.CodeUnsupported, "./x.ts"},
		"stdin: a method":             {request("scripts/a.ts", "a.import ('./z')", onStdin), runtimes.CodeUnsupported, "./z"}, // taken for an import: refused, not run
		"stdin: a part":               {request("scripts/a.ts", "await import(`./${x}.ts`)", onStdin), runtimes.CodeUnsupported, "./"},
		"stdin: in a template":        {request("scripts/a.ts", "`${await import('./x.ts')}`", onStdin), runtimes.CodeUnsupported, "./x.ts"},
	} {
		c, err := runtimes.Plan(tt.r)
		if codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v, want %s with %q", name, c.Argv, err, tt.code, tt.says)
		}
	}
}

// req
func TestOnStdin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entry, code string
		argv        []string
	}{
		"bash":           {"scripts/a.sh", "#!/bin/bash\n# source ./h.sh\necho '. ./h.sh'; source /etc/x\n", []string{"/usr/bin/bash", "-s", "--"}},
		"env bash":       {"scripts/a", "#!/usr/bin/env bash\n", []string{"/usr/bin/bash", "-s", "--"}},
		"deno, plain":    {"scripts/a.ts", "// import './x.ts'\n/* export * from './y.ts' */ const s = \"import './z.ts'\"\nimport x from 'https://a/b.ts'\n", []string{"/usr/bin/deno", "run", "--no-config", "-"}},
		"deno, flags":    {"scripts/a.ts", "#!/usr/bin/env -S deno run --allow-read=/workspace --no-remote\n", []string{"/usr/bin/deno", "run", "--no-config", "--allow-read=/workspace", "--no-remote", "-"}},
		"deno, no run":   {"scripts/a.ts", "#!/usr/bin/env deno\n", []string{"/usr/bin/deno", "run", "--no-config", "-"}},
		"not an import":  {"scripts/a.ts", "obj.from('./x'); important('./y')", []string{"/usr/bin/deno", "run", "--no-config", "-"}},
		"a text of code": {"scripts/a.ts", "const t = `import './x.ts'`; const u = 4 / 2 / 1; // import './y'", []string{"/usr/bin/deno", "run", "--no-config", "-"}},
	} {
		c, err := runtimes.Plan(request(tt.entry, tt.code, onStdin))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(append(tt.argv, "-x", "$(id)"), c.Argv); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A script of the maximum size that is made to keep its reader busy or to crash
// it. Without bounds the first ends this process and the second takes minutes.
func TestScriptsAgainstTheirReader(t *testing.T) {
	t.Parallel()
	_, err := runtimes.Plan(request("scripts/a.sh", "#!/bin/bash\n"+strings.Repeat("(", 1<<20), onStdin))
	if codeOf(err) != runtimes.CodeUnsupported || !strings.Contains(err.Error(), "131072") {
		t.Errorf("deep: %v", err)
	}
	if _, err := runtimes.Plan(request("scripts/a.ts", `"`+strings.Repeat(`\u{`, 8<<20/3), onStdin)); err != nil {
		t.Errorf("escapes: %v", err)
	}
}

func TestDeclaredPackages(t *testing.T) {
	t.Parallel()
	code := "#!/usr/bin/env -S uv run --script\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests[socks]<3\",\n#   'rich',\n# ]\n# ///\nimport requests\n"
	c, err := runtimes.Plan(request("scripts/a.py", code))
	if err != nil || !slices.Equal(c.Needs, []string{"requests", "rich"}) || c.Argv[0] != "/usr/bin/python3" || slices.Contains(c.Argv, "--script") {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = runtimes.Plan(request("scripts/a.py", code, func(r *runtimes.Request) { r.Find = everywhere() }))
	if err != nil || c.Argv[0] != "/usr/bin/uv" || !slices.Contains(c.Argv, "--offline") || len(c.Needs) > 0 {
		t.Errorf("with uv: %+v, %v", c, err)
	}
	for in, want := range map[string]string{"requests[socks] >= 2": "requests", " a.b-c ": "a.b-c", "x; python_version<'3'": "x", "": "", "-r file": "", "a b": "a", "https://x/y": ""} {
		if got := runtimes.Package(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestPlan_RefusesProgramsThatDownload(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"#!/usr/bin/env -S npx tsx", "#!/usr/bin/env -S npx ts-node", "#!/usr/bin/env -S npx --yes tsx", "#!/usr/local/bin/bunx tsx", "#!/usr/bin/env -S pnpm dlx tsx"} {
		r := request("scripts/a.ts", line+"\nconsole.log(1)\n")
		r.Runtimes, r.Find = runtimes.Names(), func(p string) (string, bool) { return "/usr/bin/" + p, true }
		_, err := runtimes.Plan(r)
		if codeOf(err) != runtimes.CodeUnsupported || !strings.Contains(err.Error(), "the sandbox has no network") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	home, system := t.TempDir(), t.TempDir()
	for p, mode := range map[string]os.FileMode{system + "/good": 0o755, system + "/plain": 0o644, home + "/shimmed": 0o755} {
		if err := os.WriteFile(p, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home+"/shimmed", system+"/shim"); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(system)
	if err != nil {
		t.Fatal(err)
	}
	find := runtimes.Lookup([]string{real})
	for name, want := range map[string]bool{"good": true, "plain": false, "shim": false, "shimmed": false, "../good": false, "": false, real + "/good": true, home + "/shimmed": false, real + "/../x": false} {
		if p, ok := find(name); ok != want {
			t.Errorf("%q: %q, %v", name, p, ok)
		}
	}
}

// FuzzImports: the lexer ends, and text before an import cannot hide it.
func FuzzImports(f *testing.F) {
	for _, s := range []string{"import './x'", "`${`${'./a'}`}`", "/[/", "import(`./${x}`)", "\"\\u{2e}/\"", "export * from './y' // z", "a / b / import './c'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) {
		_, _ = runtimes.Plan(request("scripts/a.ts", code, onStdin)) // it ends
		for _, q := range []string{"'", "\""} {                      // after any code that ends in a new statement, an import is found
			if strings.ContainsAny(code, "/`'\"\\#") {
				continue
			}
			if _, err := runtimes.Plan(request("scripts/a.ts", code+"\n;import "+q+"./x.ts"+q, onStdin)); codeOf(err) != runtimes.CodeUnsupported {
				t.Fatalf("after %q an import is not seen: %v", code, err)
			}
		}
	})
}
