package exectool_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/exectool"
	"metier/internal/runtimes"
	"metier/internal/testenv"
	"metier/record"
	"metier/sandbox"
	"metier/settings"
)

// The values of the setting script_runtimes are exactly the available runtimes.
func TestRuntimesOfTheSettingAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(settings.Table(), func(r settings.Row) bool { return r.Name == "script_runtimes" })
	set, table := slices.Sorted(slices.Values(settings.Table()[i].Values)), slices.Sorted(slices.Values(runtimes.Names()))
	if !slices.Equal(set, table) {
		t.Errorf("the setting has %q, the table %q", set, table)
	}
}

// argv returns the last command that the sandbox was asked to run.
func (w *fixture) argv() []string { return w.box.jobs[len(w.box.jobs)-1].Argv }

// req
func TestDenoAndBashOnStandardInput(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{
		"scripts/plain.ts":   "const n: number = 40; console.log(n + 2, Deno.args.join('|'), Deno.permissions.querySync({name: 'env'}).state)\n",
		"scripts/run.ts":     "#!/usr/bin/env -S deno run --allow-env=SKILL_NAME --allow-read=/workspace\nconsole.log(Deno.env.get('SKILL_NAME'), Deno.args.join('|'))\n",
		"scripts/other.ts":   "#!/usr/bin/env -S deno --allow-all\nconsole.log(Deno.permissions.querySync({name: 'env'}).state)\n",
		"scripts/direct.ts":  "#!/usr/bin/deno run -A\nconsole.log(Deno.permissions.querySync({name: 'env'}).state)\n",
		"scripts/loose.ts":   "#!/usr/bin/env -S deno --quiet --allow-env\nconsole.log(Deno.permissions.querySync({name: 'env'}).state)\n",
		"scripts/imports.ts": "import { basename } from 'node:path'; console.log(basename('/a/b'))\n",
		"scripts/plain.js":   "console.log(40 + 3, Deno.args.join('|'))\n",
		"scripts/plain.mjs":  "console.log(40 + 4)\n",
		"scripts/plain.mts":  "console.log(40 + 5 as number)\n",
		"scripts/env.sh":     "#!/usr/bin/env bash\necho 46\n",
		"scripts/a.sh":       "#!/bin/bash\necho \"$1|$2\"\n",
	}))
	if r := w.ran("scripts/plain.js", "z"); r.Stdout != "43 z\n" || !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "-", "z"}) || filepath.Base(w.argv()[0]) != "deno" {
		t.Errorf("%q %+v", w.argv(), r)
	}
	for file, want := range map[string]string{"plain.mjs": "44\n", "plain.mts": "45\n", "env.sh": "46\n"} {
		if diff := cmp.Diff(want, w.ran("scripts/"+file).Stdout); diff != "" {
			t.Errorf("%s printed (-want +got):\n%s", file, diff)
		}
	}
	if r := w.ran("scripts/plain.ts", "--allow-env", "a b"); r.Stdout != "42 --allow-env|a b prompt\n" || !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "-", "--allow-env", "a b"}) || filepath.Base(w.argv()[0]) != "deno" {
		t.Errorf("%q %+v", w.argv(), r)
	}
	if r := w.ran("scripts/run.ts", "y"); r.Stdout != "demo y\n" || !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "--allow-env=SKILL_NAME", "--allow-read=/workspace", "-", "y"}) {
		t.Errorf("%q %+v", w.argv(), r)
	}
	if r := w.ran("scripts/direct.ts"); r.Stdout != "granted\n" || !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "-A", "-"}) {
		t.Errorf("%q %+v", w.argv(), r)
	}
	for _, file := range []string{"other.ts", "loose.ts"} {
		if r := w.ran("scripts/" + file); r.Stdout != "prompt\n" || !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "-"}) {
			t.Errorf("%s: a shebang without run gave permissions: %q %+v", file, w.argv(), r)
		}
	}
	w.put("evil.ts", "export const basename = () => 'evil'\n")
	for _, name := range []string{"deno.json", "deno.jsonc", "package.json"} {
		w.put(name, `{"imports": {"node:path": "./evil.ts"}}`)
	}
	if diff := cmp.Diff("b\n", w.ran("scripts/imports.ts").Stdout); diff != "" {
		t.Errorf("with an import map in the workspace (-want +got):\n%s", diff)
	}
	if r := w.ran("scripts/a.sh", "-x", "--"); r.Stdout != "-x|--\n" || !slices.Equal(w.argv()[1:], []string{"-s", "--", "-x", "--"}) || r.Runtime != "bash" {
		t.Errorf("%q %+v", w.argv(), r)
	}
}

// req: A-073
func TestWhatRanIsWhatWasChecked(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{cfHarness, settings.DefaultProfile} {
		w := newFixture(t, setup{profile: profile}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho checked\n"}))
		w.box.before = func(sandbox.Job) { w.put("skills/demo/scripts/a.sh", "#!/bin/bash\necho swapped\n") }
		if r := w.ran("scripts/a.sh"); r.Stdout != "checked\n" {
			t.Errorf("%s: %q", profile, r.Stdout)
		}
		if profile == cfHarness && (!slices.Equal(w.argv()[1:], []string{"-s", "--"}) || len(w.box.jobs[0].Trees) > 0) {
			t.Errorf("bash does not read it on standard input: %q", w.argv())
		}
		w.refuses2("script_snapshot_mismatch", "scripts/a.sh")
	}
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.ts": "console.log('checked')\n"}))
	w.box.before = func(sandbox.Job) { w.put("skills/demo/scripts/a.ts", "console.log('swapped')\n") }
	if r := w.ran("scripts/a.ts"); r.Stdout != "checked\n" {
		t.Errorf("deno: %q", r.Stdout)
	}
	if !slices.Equal(w.argv()[1:], []string{"run", "--no-config", "-"}) || len(w.box.jobs[0].Trees) > 0 {
		t.Errorf("deno does not read it on standard input: %q", w.argv())
	}
}

// refuses2 checks that a script is refused after others ran.
func (w *fixture) refuses2(code, path string) {
	w.t.Helper()
	w.box.jobs = nil
	w.refuses(code, w.run(path))
}

// req: A-075
func TestDenoImportsNothingBeside(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"static": "import { x } from './x.ts'\n", "bare": "import '../x.ts'\n", "dynamic": "const m = await import(\"./x.ts\")\n",
		"file": "import { x } from 'file:///workspace/x.ts'\n", "file dynamic": "const m = await import('FILE:///workspace/x.ts')\n",
		"re-export": "export { x } from \"./x.ts\"\n", "all": "export * from './x.ts'\n", "json": "import s from './x.json' with { type: 'json' }\n",
		"template": "const m = await import(`./x.ts`)\n", "behind another": "import fs from 'node:fs'\nimport { x } from './x.ts'\n",
		"absolute": "import { x } from '/workspace/x.ts'\n", "require": "const m = require('./x.cjs')\n", "type": "import type { X } from './x.ts'\n",
	}
	allowed := map[string]string{
		"line": "// import './x.ts'\n", "block": "/* export * from './x.ts' */\n", "block-later": "const a = 1\n/* import './x.ts' */\n", "text": "console.log(\"import './x.ts'\")\n", "after": "const a = 1 // import('./x.ts')\n",
	}
	files := map[string]string{}
	for name, code := range refused {
		files["scripts/no-"+name+".ts"] = code
	}
	for name, code := range allowed {
		files["scripts/yes-"+name+".ts"] = code
	}
	w := newFixture(t, setup{profile: cfHarness}, demo(files))
	for name := range refused {
		w.refuses2("unsupported_runtime", "scripts/no-"+name+".ts")
	}
	for name := range allowed {
		w.ran("scripts/yes-" + name + ".ts")
	}
}

// req
func TestBashNeedsItsShebang(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"sh": "#!/bin/sh\n", "none": "echo\n", "flags": "#!/bin/bash -e\n", "env-flags": "#!/usr/bin/env -S bash -e\n", "dash": "#!/bin/dash\n", "long-flag": "#!/bin/bash --norc\n", "env-no-S": "#!/usr/bin/env bash -e\n", "env-set": "#!/usr/bin/env -S A=1 bash\n",
		"source": "#!/bin/bash\nsource ./h.sh\n", "dot": "#!/bin/bash\n. ./h.sh\n", "later": "#!/bin/bash\ntrue && source ../h.sh\n", "quoted": "#!/bin/bash\nsource \"./h.sh\"\n",
		"below": "#!/bin/bash\n. lib/h.sh\n", "plain": "#!/bin/bash\n. h.sh\n", "command": "#!/bin/bash\ncommand . ./h.sh\n", "builtin": "#!/bin/bash\nbuiltin source ./h.sh\n",
		"dashes": "#!/bin/bash\nsource -- ./h.sh\n", "arguments": "#!/bin/bash\nsource ./h.sh /etc/x\n", "second": "#!/bin/bash\nsource /dev/null\nsource ./h.sh\n", "escaped": "#!/bin/bash\n\\source .\\/h.sh\n", "subshell": "#!/bin/bash\nx=$(. ./h.sh)\n",
		"in a function": "#!/bin/bash\nf() { if true; then . './h.sh'; fi; }\n",
	}
	allowed := map[string]string{"bash": "#!/bin/bash\n", "env": "#!/usr/bin/env bash\n", "comment": "#!/bin/bash\n# source ./h.sh\n", "text": "#!/bin/bash\necho '. ./h.sh'\n", "usr": "#!/usr/bin/bash\n",
		"after": "#!/bin/bash\n: # . ./h.sh\n", "absolute": "#!/bin/bash\nsource /dev/null\n", "variable": "#!/bin/bash\n[ -z \"$LIB\" ] || . \"$LIB/h.sh\"\n"}
	files := map[string]string{"scripts/h.sh": "#!/bin/bash\n"}
	for name, code := range refused {
		files["scripts/no-"+name+".sh"] = code
	}
	for name, code := range allowed {
		files["scripts/yes-"+name+".sh"] = code + "printf '%s\\n' \"$1\"\n"
	}
	w := newFixture(t, setup{profile: cfHarness}, demo(files))
	for name := range refused {
		w.refuses2("unsupported_runtime", "scripts/no-"+name+".sh")
	}
	for name := range allowed {
		if r := w.ran("scripts/yes-"+name+".sh", "-x"); !strings.HasSuffix(r.Stdout, "-x\n") || !slices.Equal(w.argv()[1:], []string{"-s", "--", "-x"}) {
			t.Errorf("%s: %q %q", name, w.argv(), r.Stdout)
		}
	}
}

// req: A-079
func TestOtherShebangsAreIndexedAndNotRun(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.rb": "#!/usr/bin/env ruby\n", "scripts/b": "#!/usr/bin/awk -f\n", "scripts/c.js": "#!/usr/bin/env node\n", "scripts/d.ts": "#!/usr/bin/env node\n", "scripts/e": "#!/usr/bin/env python3\n",
		"scripts/f": "#!/usr/bin/perl -w\n", "scripts/g": "#!/usr/bin/env pwsh\n", "scripts/h.sh": "#!/bin/sh\n"}))
	sk, err := w.s.Snapshot().Find("demo")
	if err != nil {
		t.Fatal(err)
	}
	if sk, err = w.s.Snapshot().Index(t.Context(), sk); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{"scripts/a.rb": {"ruby", "#!/usr/bin/env ruby"}, "scripts/b": {"shebang", "#!/usr/bin/awk -f"}, "scripts/c.js": {"node", "#!/usr/bin/env node"},
		"scripts/d.ts": {"node", "#!/usr/bin/env node"}, "scripts/e": {"python3", "#!/usr/bin/env python3"}, "scripts/f": {"perl", "#!/usr/bin/perl -w"}, "scripts/g": {"pwsh", "#!/usr/bin/env pwsh"}, "scripts/h.sh": {"sh", "#!/bin/sh"}} {
		found := false
		for _, r := range sk.Resources {
			found = found || r.Path == path && r.Kind == metier.Script && r.Runtime == want[0] && r.Shebang == want[1]
		}
		if !found {
			t.Errorf("%s is not in the index: %+v", path, sk.Resources)
		}
		w.refuses2("unsupported_runtime", path)
	}
}

// req: A-083
func TestArgumentsArriveVerbatim(t *testing.T) {
	t.Parallel()
	args := []string{"$(id)", "`id`", "a;b", "a b", "*", "~", "-c", "--", "", "new\nline", "\"'\\", "${HOME}", "é\x01", "|cat", ">x"}
	for _, profile := range []string{cfHarness, settings.DefaultProfile} {
		w := newFixture(t, setup{profile: profile}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\nprintf '%s\\0' \"$@\"\n"}))
		if r := w.ran("scripts/a.sh", args...); r.Stdout != strings.Join(args, "\x00")+"\x00" {
			t.Errorf("%s: %q", profile, r.Stdout)
		}
	}
}

// req: A-086, C-060
func TestScriptEnvironment(t *testing.T) {
	t.Setenv("CANARY", "secret-of-the-parent")
	for profile, want := range map[string]string{cfHarness: "/workspace/skills/demo", settings.DefaultProfile: "/skills/demo", agentRuntime: "/skills/demo"} {
		w := newFixture(t, setup{profile: profile}, demo(map[string]string{"scripts/tell/env.sh": "#!/bin/bash\nenv -0\n"}))
		got := strings.Split(strings.TrimSuffix(w.ran("scripts/tell/env.sh").Stdout, "\x00"), "\x00")
		for _, kv := range []string{"CF_HARNESS_RUN_ID=run-1", "SKILL_NAME=demo", "SKILL_DIR=" + want, "SKILL_SCRIPT=" + want + "/scripts/tell/env.sh", "CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET=sandbox", "HOME=/tmp"} {
			contains(t, got, kv)
		}
		known := []string{"PATH", "HOME", "TMPDIR", "LANG", "TERM", "PWD", "OLDPWD", "SHLVL", "_", "CF_HARNESS_RUN_ID", "SKILL_NAME", "SKILL_DIR", "SKILL_SCRIPT", "CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET"}
		for _, kv := range got {
			if k, _, _ := strings.Cut(kv, "="); !slices.Contains(known, k) {
				t.Errorf("%s: the script sees %q", profile, kv)
			}
		}
	}

	// The name is the one in the skill's frontmatter, not one derived from it.
	w := newFixture(t, setup{}, map[string]string{"skills/form-fill/SKILL.md": "---\nname: Form Fill\ndescription: Use when forms are filled in.\n---\nRun it.\n",
		"skills/form-fill/scripts/name.sh": "printf %s \"$SKILL_NAME\"\n"})
	o, _ := w.call("run_skill_script", exectool.Script{Skill: "Form Fill", Path: "scripts/name.sh"})
	if diff := cmp.Diff("Form Fill", result(t, o).Stdout); diff != "" {
		t.Error(diff)
	}
}

// Every interpreter on this machine runs a script with the default profile.
func TestInterpreters(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, code string }{
		"sh":      {"scripts/a", "#!/bin/sh\necho ok \"$1\"\n"},
		"python3": {"scripts/a.py", "import sys; print('ok', sys.argv[1])\n"},
		"node":    {"scripts/a.js", "console.log('ok', process.argv[2])\n"},
		"deno":    {"scripts/a.ts", "import { s } from './lib.ts'; console.log(s, Deno.args[0])\n"},
		"perl":    {"scripts/a.pl", "print \"ok $ARGV[0]\\n\";\n"},
		"awk":     {"scripts/a", "#!/usr/bin/awk -f\nBEGIN { print \"ok\", ARGV[1] }\n"},
		"go":      {"scripts/a.go", "package main\nimport \"syscall\"\nfunc main() { syscall.Write(1, []byte(\"ok arg\\n\")) }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, setup{options: func(o *exectool.Options) {
				o.Limits.Memory, o.Limits.Scratch, o.Limits.ScratchFiles, o.Limits.Processes = 2<<30, 512<<20, 20_000, 256
				o.Limits.Wall = 2 * time.Minute
			}}, demo(map[string]string{tt.file: tt.code, "scripts/lib.ts": "export const s = 'ok'\n"}))
			o := w.run(tt.file, "arg")
			if o.Code() == "interpreter_missing" {
				testenv.Skip(t, "needs "+name+": "+o.Text())
			}
			if r := result(t, o); r.Stdout != "ok arg\n" {
				t.Errorf("%q: %s", w.argv(), o.Text())
			}
		})
	}
}

func TestGoScript_TakesNoPackageFromTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module w\n\ngo 1.21\n", "lib.go": "package w\n\nfunc Name() string { return \"workspace\\n\" }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := newFixture(t, setup{options: func(o *exectool.Options) {
		o.Workspace = &sandbox.Workspace{Host: dir}
		o.Limits.Memory, o.Limits.Scratch, o.Limits.ScratchFiles, o.Limits.Processes = 2<<30, 512<<20, 20_000, 256
		o.Limits.Wall = 2 * time.Minute
	}}, demo(map[string]string{"scripts/a.go": "package main\n\nimport (\n\t\"syscall\"\n\t\"w\"\n)\n\nfunc main() { syscall.Write(1, []byte(w.Name())) }\n"}))
	o := w.run("scripts/a.go")
	if o.Code() == "interpreter_missing" {
		testenv.Skip(t, "needs go: "+o.Text())
	}
	r := result(t, o)
	if diff := cmp.Diff("", r.Stdout); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if !strings.Contains(r.Stderr, "package w is not in std") && !strings.Contains(r.Stderr, `cannot find package "w"`) {
		t.Errorf("stderr: %s", r.Stderr)
	}
}

func TestMissingInterpreterIsNamed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, demo(map[string]string{"scripts/a": "#!/usr/bin/env no-such-program-here\n"}))
	o := w.run("scripts/a")
	w.refuses("interpreter_missing", o)
	if !strings.Contains(o.Text(), "no-such-program-here") {
		t.Error(o.Text())
	}
}

// req: C-079, C-080, C-081
func TestDeclaredPackages(t *testing.T) {
	t.Parallel()
	skill := "---\nname: demo\ndescription: Use when scripts are tried.\ncompatibility: needs a network, docker and root\ndependencies: [python>=3.8, no-such-package-here>=2, nor-this-one]\n---\n"
	for reject, want := range map[settings.MissingDependency]string{settings.MissingDependencyReject: "dependency_missing", settings.MissingDependencyWarn: ""} {
		files := demo(map[string]string{"scripts/a.py": "print('ran')\n"})
		files["skills/demo/SKILL.md"] = skill
		w := newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.MissingDependency = reject }}, files)
		o := w.run("scripts/a.py")
		if o.Code() != want || strings.Contains(o.Text(), "ran\n") != (want == "") {
			t.Errorf("%s: %q %s", reject, o.Code(), o.Text())
		}
		asked := events[event.PackagesRequested](w)
		request := event.PackagesRequested{Call: "c1", SkillID: "r:demo", Path: "scripts/a.py", Runtime: "python", Packages: []string{"no-such-package-here", "nor-this-one"}, Rejected: want != ""}
		if diff := cmp.Diff([]event.PackagesRequested{request}, asked); diff != "" {
			t.Errorf("%s: %s", reject, diff)
		}
		for _, j := range w.box.jobs { // the one that asked, and the script: nothing installs
			if slices.ContainsFunc(j.Argv, func(a string) bool { return strings.Contains(a, "install") || strings.HasSuffix(a, "pip") }) {
				t.Errorf("%q", j.Argv)
			}
		}
	}
	both := demo(map[string]string{"scripts/a.py": "# /// script\n# dependencies = [\"json\"]\n# ///\nprint('ran')\n"}) // and the skill
	both["skills/demo/SKILL.md"] = skill
	if o := newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.MissingDependency = settings.MissingDependencyReject }}, both).run("scripts/a.py"); o.Code() != "dependency_missing" {
		t.Errorf("both declare packages: %s", o.Text())
	}
	files := demo(map[string]string{"scripts/a.py": "# /// script\n# dependencies = [\"also-no-such-package\"]\n# ///\nprint('ran')\n", "scripts/b.sh": "#!/bin/bash\necho ran\n"})
	files["skills/demo/SKILL.md"] = strings.Replace(skill, "dependencies: [python>=3.8, no-such-package-here>=2, nor-this-one]\n", "", 1)
	w := newFixture(t, setup{}, files)
	if r := w.ran("scripts/b.sh"); r.Stdout != "ran\n" { // it is only a hint: it denies nothing
		t.Errorf("%+v", r)
	}
	if got := w.s.Catalog(t.Context()).Entries[0].Compatibility; got != "needs a network, docker and root" {
		t.Errorf("shown as compatibility: %q", got)
	}
	if asked := events[event.PackagesRequested](w); len(asked) != 0 {
		t.Errorf("nothing is declared, and asked for is %+v", asked)
	}
	w.run("scripts/a.py")
	if asked := events[event.PackagesRequested](w); len(asked) != 1 || asked[0].Packages[0] != "also-no-such-package" {
		t.Errorf("%+v", asked)
	}
	there := demo(map[string]string{"scripts/a.py": "# /// script\n# dependencies = [\"json\"]\n# ///\nprint('ran')\n"})
	w = newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.MissingDependency = settings.MissingDependencyReject }}, there)
	if r := w.ran("scripts/a.py"); r.Stdout != "ran\n" || len(events[event.PackagesRequested](w)) != 0 {
		t.Errorf("what is there is asked for: %+v", r)
	}
}

func TestSecretsReachTheScriptAlone(t *testing.T) {
	t.Parallel()
	const value = "canary-of-a-secret-7741"
	w := newFixture(t, setup{options: func(o *exectool.Options) {
		o.Secrets = func(_ context.Context, sk metier.Skill) ([]record.Secret, error) {
			if sk.Name != "demo" {
				return nil, fmt.Errorf("asked for %s", sk.Name)
			}
			return []record.Secret{{Name: "TOKEN", Value: value}}, nil
		}
	}}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho \"${#TOKEN} $TOKEN\" | tee /workspace/seen; echo $TOKEN >&2\n"}))
	o := w.run("scripts/a.sh")
	b, err := os.ReadFile(filepath.Join(w.dir, "seen"))
	if err != nil || string(b) != fmt.Sprintf("%d %s\n", len(value), value) {
		t.Errorf("the script got %q, %v", b, err)
	}
	if strings.Contains(o.Text(), value) || strings.Contains(string(o.Detail()), value) || strings.Contains(w.out, value) {
		t.Errorf("%s\n%s\n%s", o.Text(), o.Detail(), w.out)
	}
	if o, _ := w.call("bash", map[string]any{"command": "env"}); strings.Contains(o.Text(), "TOKEN") || o.Code() != "" {
		t.Errorf("a command sees the secrets of a skill: %s", o.Text())
	}
}

// A program writes a secret in two pieces, or up to where its output is cut.
func TestHalvesOfSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const value = "canary-of-a-secret-7741"
	for script, limit := range map[string]int64{
		"printf 'is %s' ${TOKEN:0:9}; sleep 0.2; printf '%s.' ${TOKEN:9}": 1 << 20,
		"printf 'is %s' $TOKEN":            12,
		"printf 'is %s, can' nearly; exit": 1 << 20,
	} {
		w := newFixture(t, setup{options: func(o *exectool.Options) {
			o.Limits.Output = limit
			o.Secrets = func(context.Context, metier.Skill) ([]record.Secret, error) {
				return []record.Secret{{Name: "TOKEN", Value: value}}, nil
			}
		}}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n" + script + "\n"}))
		o := w.run("scripts/a.sh")
		shown := strings.ReplaceAll(w.out, "stdout:", "")
		if strings.Contains(shown, "canary-") || strings.Contains(o.Text(), "canary-") || !strings.HasPrefix(shown, "is ") {
			t.Errorf("%s: shown %q, read %q", script, w.out, o.Text())
		}
		if script[len(script)-4:] == "exit" && shown != "is nearly, can" {
			t.Errorf("shown %q", shown)
		}
	}
}

func TestOwnWordsOfErrors(t *testing.T) {
	t.Parallel()
	for r, want := range map[*exectool.Result]string{{Signal: "SIGSEGV"}: "was ended by SIGSEGV", {Limit: "cpu"}: "was stopped because it reached the CPU-time limit", {Limit: "cancelled"}: "was interrupted", {}: "did not run"} {
		if got := r.Ended(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A script that fails because a package is missing gets its name and the reason
// why it is not installed. A missing file of the skill itself is not reported
// as a package.
func TestRun_NamesTheMissingPackage(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, demo(map[string]string{
		"scripts/p.py":  "#!/usr/bin/env python3\nimport surely_not_installed.part\n",
		"scripts/n.mjs": "#!/usr/bin/env node\nimport '@surely/not-installed'\n",
		"scripts/n.cjs": "#!/usr/bin/env node\nrequire('surely-not-installed')\n",
		"scripts/r.cjs": "#!/usr/bin/env node\nrequire('./beside.cjs')\n",
	}))
	for file, want := range map[string]string{"scripts/p.py": "Python package surely_not_installed", "scripts/n.mjs": "Node.js module @surely/not-installed",
		"scripts/n.cjs": "Node.js module surely-not-installed", "scripts/r.cjs": ""} {
		text := w.run(file).Text()
		if named := strings.Contains(text, "The "+want+" is not installed where scripts run, and the sandbox has no network"); want != "" && !named {
			t.Errorf("%s: %s", file, text)
		}
		if want == "" && strings.Contains(text, "not installed") {
			t.Errorf("%s: %s", file, text)
		}
	}
}
