package exectool_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"metier/internal/shell"
	"metier/policy"
	"metier/sandbox"
	"metier/sandbox/native"
)

// denied is a program that exists only in the sandbox. It leaves a mark.
const denied = "zap"

// driver runs the texts of its input with bash, and reports whether the denied
// program ran, including in the background.
const driver = `exec 3<&0
set -- /proc/[0-9]*; own=$#
while IFS= read -r -d '' -u 3 text; do
  cd /tmp && rm -rf w && mkdir w && cd w && echo x > f
  timeout -s KILL 1 bash --noprofile --norc -c "$text" </dev/null >/dev/null 2>&1 3<&-
  cd /tmp
done
for ((i = 0; i < 60; i++)); do
  set -- /proc/[0-9]*
  [ $# -le $own ] && break
  sleep 0.05
done
[ -e /tmp/mark ] && echo marked
echo done
`

// refused reports whether a rule against the denied program refuses a text.
func refused(text string) bool {
	facts, err := shell.Facts(text)
	if err != nil {
		return true // bash is not started with such a text
	}
	g := policy.Grants{Mode: policy.Disabled, Tools: []string{"bash"}, Rules: []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash(" + denied + ":*)"}}}
	r := policy.Request{Tool: "bash", Effect: policy.SideEffect, Actor: policy.ByModel, Level: "L2", Commands: facts.Commands, Starts: facts.Starts, Opaque: facts.Opaque}
	return policy.Decide(&g, r).Code == policy.CodeRuleDenied
}

// ran reports whether one of the texts started the denied program. The second
// result is false if the run did not end by itself.
func ran(t testing.TB, box sandbox.Sandbox, texts []string) (marked, ended bool) {
	t.Helper()
	j := sandbox.Job{
		Argv:   []string{"bash", "--noprofile", "--norc", "-c", driver},
		Env:    []string{"PATH=/skills/denied/bin:/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"},
		Stdin:  strings.NewReader(strings.Join(texts, "\x00") + "\x00"),
		Trees:  []sandbox.Tree{{Path: "/skills/denied", Files: []sandbox.File{{Path: "bin/" + denied, Exec: true, Data: []byte("#!/bin/sh\n: > /tmp/mark\n")}}}},
		Limits: sandbox.Limits{Wall: 3 * time.Minute, Output: 64 << 10, Memory: 1 << 30, Processes: 200, FileSize: 1 << 20, Scratch: 64 << 20, ScratchFiles: 4000, OpenFiles: 256},
	}
	res, err := box.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(res.Stdout, []byte("marked")), bytes.HasSuffix(res.Stdout, []byte("done\n"))
}

// compare runs the texts that the rule allows, and fails if one of them started
// the denied program. It returns how many ran.
func compare(t testing.TB, box sandbox.Sandbox, texts []string) int {
	t.Helper()
	var pass []string
	for _, text := range texts {
		if !refused(text) {
			pass = append(pass, text)
		}
	}
	if len(pass) == 0 {
		return 0
	}
	marked, ended := ran(t, box, pass)
	if ended && !marked {
		return len(pass)
	}
	for _, text := range pass { // one by one: which text did it, or ended the run
		if marked, _ := ran(t, box, []string{text}); marked {
			t.Errorf("the rule lets this pass, and bash starts %s:\n%s", denied, text)
		}
	}
	return len(pass)
}

func nativeBox(t testing.TB) sandbox.Sandbox {
	t.Helper()
	linux(t)
	box, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

// Texts that start the denied program, openly or by a trick, are refused. They
// do start it, which shows that the comparison detects it.
func TestDenyRules_RefuseWhatBashStarts(t *testing.T) {
	t.Parallel()
	box := nativeBox(t)
	var sure []string
	for _, text := range sampleTexts(t, "hidden.txt") {
		if !refused(text) {
			t.Errorf("the rule lets this pass: %s", text)
		}
	}
	for _, text := range []string{denied, "za''p", "echo | xargs zap", "x='a[$(zap)]'; echo ${b[x]}", "x='$(zap)'; echo ${x@P}", "PS4='$(zap)'; set -x; :", "sh -c '((zap))'", "x86_64 zap", "time -- zap", "(sleep 0.05; zap) & disown", "trap zap EXIT", "setsid -f zap"} {
		if marked, ended := ran(t, box, []string{text}); !marked || !ended {
			t.Errorf("%q: marked %v, ended %v", text, marked, ended)
		}
		sure = append(sure, text)
	}
	for _, text := range sure {
		if !refused(text) {
			t.Errorf("the rule lets this pass: %s", text)
		}
	}
}

// A random text that started the denied program without being refused is a
// failure. Ordinary lines are among those that run.
func TestDenyRules_AgreeWithBash(t *testing.T) {
	t.Parallel()
	box := nativeBox(t)
	if n := compare(t, box, sampleTexts(t, "ordinary.txt")); n < 90 {
		t.Errorf("only %d ordinary lines ran", n)
	}
	tg := newTexts(t, 1)
	if n := compare(t, box, tg.many(400)); n < 40 {
		t.Errorf("only %d of 400 random texts ran", n)
	}
}

// FuzzDenyRules runs random texts until it is stopped.
func FuzzDenyRules(f *testing.F) {
	box := nativeBox(f)
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) {
		compare(t, box, newTexts(t, seed).many(100)) // an input that takes 10 seconds counts as hung
	})
}
