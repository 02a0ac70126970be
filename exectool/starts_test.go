package exectool_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/exectool"
	"metier/internal/shell"
	"metier/internal/testenv"
	"metier/policy"
	"metier/run"
	"metier/sandbox"
)

func rules(all ...policy.Rule) setup {
	return setup{grants: func(g *policy.Grants) { g.Rules = all }}
}

var noTouch = policy.Rule{Effect: policy.RuleDeny, Pattern: "Bash(touch:*)"}

func (w *fixture) there(name string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, name))
	return err == nil
}

// A deny rule stops a program that another program starts, ends the command, and is recorded.
func TestBash_DenyRuleStopsNestedProgram(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "make", "make")
	w := newFixture(t, rules(noTouch), map[string]string{"Makefile": "all:\n\t@touch made || echo reacted\n\t@echo after\n"})
	o, asks := w.call("bash", map[string]any{"command": "echo before; make"})
	if asks != nil || o.Code() != policy.CodeRuleDenied || w.there("made") {
		t.Fatalf("%q %v: %s", o.Code(), asks, o.Text())
	}
	text := o.Text()
	if !strings.HasPrefix(text, "rule_denied: run: touch was not started: the operator's rule denies it: deny: Bash(touch:*)\n") || !strings.Contains(text, "before") || strings.Contains(text, "after") || strings.Contains(text, "reacted") {
		t.Error(text)
	}
	if r := result(t, o); r.Limit != sandbox.LimitProgram || r.ExitCode != nil || !strings.Contains(r.Ended(), "a program that a rule refuses") {
		t.Errorf("%+v: %s", r, r.Ended())
	}
	ran := events[event.CommandExecuted](w)
	if len(ran) != 1 || ran[0].Code != policy.CodeRuleDenied || ran[0].Status != "executed" || ran[0].Limit != sandbox.LimitProgram {
		t.Errorf("%+v", ran)
	}
	decided := events[event.PolicyDecided](w)
	if d := decided[len(decided)-1]; d.Stage != "program" || d.Outcome != policy.Deny || d.Code != policy.CodeRuleDenied || d.Rule != "deny: Bash(touch:*)" || d.Tool != "bash" || d.Args.Digest != decided[0].Args.Digest {
		t.Errorf("%+v", d)
	}
	all := func(yield func(event.Event) bool) {
		for _, d := range decided {
			if !yield(d) {
				return
			}
		}
	}
	if d := run.Denied(all); len(d) != 1 || d[0].Code != policy.CodeRuleDenied || d[0].Count != 1 {
		t.Errorf("%+v", d)
	}
}

// A destructive program that the text does not show needs an approval that only a plain text gets.
// One that another program starts, or that was approved, runs.
func TestBash_AsksAboutWhatItStartsItself(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "make", "make")
	w := newFixture(t, rules(policy.Rule{Effect: policy.RuleAsk, Pattern: "Bash(curl:*)"}), map[string]string{"Makefile": "clean:\n\trm f\n", "s.sh": "#!/bin/sh\nrm f\n", "lib": "rm f\n"})
	for _, name := range []string{"unlink", "curl"} {
		if err := os.Symlink("/usr/bin/"+map[string]string{"unlink": "rm", "curl": "true"}[name], filepath.Join(w.dir, "x"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/usr/bin/true", filepath.Join(w.dir, "curl")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		command, code, says string
		gone                bool
	}{
		{command: "./xunlink f", code: policy.CodeDestructive, says: "./xunlink (/usr/bin/rm) was not started: it may destroy data: rm; make another call whose command shows it plainly"},
		{command: ". ./lib", code: policy.CodeDestructive, says: "rm was not started"},
		{command: "env ./xunlink f", code: policy.CodeDestructive, says: "rm"},
		{command: "make clean", gone: true},
		{command: "./s.sh", gone: true},
		{command: "bash s.sh", gone: true},
		{command: "./xcurl x"},
	} {
		w.put("f", "x")
		o, asks := w.call("bash", map[string]any{"command": tt.command})
		if asks != nil || o.Code() != tt.code || !strings.Contains(o.Text(), tt.says) || w.there("f") == tt.gone {
			t.Errorf("%s: %q, f is there: %v, asks %v: %s", tt.command, o.Code(), w.there("f"), asks != nil, o.Text())
		}
	}
	for _, command := range []string{"rm f; sh -c 'rm -f g'", "./curl x; rm f", `x=rm; $x f; ./xunlink -f f`} {
		w.put("f", "x")
		c := metier.Call{ID: command, Tool: "bash", Args: []byte(`{"command":"` + command + `"}`)}
		_, asks := w.try(c)
		for range 2 {
			if asks == nil {
				break
			}
			if err := w.s.Answer(t.Context(), c.ID, policy.Answer{Question: asks.Question.ID, Allow: true, By: "owner"}); err != nil {
				t.Fatal(err)
			}
			_, asks = w.try(c)
		}
		if o, asks := w.try(c); asks != nil || o.Code() != "" || w.there("f") {
			t.Errorf("%s: %q: %s", command, o.Code(), o.Text())
		}
	}
}

// Only commands that a rule could stop are watched, and no scripts.
func TestBash_WatchesOnlyForRules(t *testing.T) {
	t.Parallel()
	w := newFixture(t, rules(noTouch), demo(map[string]string{"scripts/a.sh": "touch /tmp/x && echo made\n"}))
	if r := w.ran("scripts/a.sh"); r.Stdout != "made\n" || w.box.jobs[0].Exec != nil {
		t.Errorf("a script: %+v", r)
	}
	w.call("bash", map[string]any{"command": "true"})
	if w.box.jobs[1].Exec == nil {
		t.Error("a command is not watched")
	}
	w = newFixture(t, setup{}, nil)
	if o, err := w.s.Call(t.Context(), metier.Call{ID: "op", Tool: "bash", Args: []byte(`{"command":"rm -f x"}`), Actor: policy.ByOperator}); err != nil || o.Code() != "" || w.box.jobs[0].Exec != nil {
		t.Errorf("the operator's own: %v %s", err, o.Text())
	}
}

// unwatching is a sandbox that cannot watch programs.
type unwatching struct{ sandbox.Sandbox }

func (u unwatching) Probe(ctx context.Context) sandbox.Report {
	r := u.Sandbox.Probe(ctx)
	r.Notes = append(r.Notes, sandbox.NoteUnwatched)
	return r
}

// Where programs cannot be watched, questions depend on the text, and deny rules need more: the
// sandbox refuses the job.
func TestBash_WithoutWatching(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rules   setup
		watched bool
	}{{setup{}, false}, {rules(policy.Rule{Effect: policy.RuleAsk, Pattern: "Bash(curl:*)"}), false}, {rules(noTouch), true}} {
		su := tt.rules
		su.options = func(o *exectool.Options) { o.Sandbox = unwatching{o.Sandbox} }
		w := newFixture(t, su, nil)
		w.call("bash", map[string]any{"command": "true"})
		if got := w.box.jobs[0].Exec != nil; got != tt.watched {
			t.Errorf("watched is %v, want %v", got, tt.watched)
		}
	}
}

// watched runs a text as if its analysis had found nothing, and returns the refused program.
func watched(t *testing.T, box sandbox.Sandbox, g *policy.Grants, r policy.Request, j sandbox.Job) (string, sandbox.Result) {
	t.Helper()
	exec, refused := exectool.Watch(func(s policy.Started) policy.Decision { return policy.DecideStart(g, r, s) })
	j.Exec, j.Limits = exec, sandbox.Limits{Wall: 2 * time.Second, Memory: 1 << 30, Processes: 200}
	res, err := box.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return refused(), res
}

func grantsOf(rules ...policy.Rule) *policy.Grants {
	return &policy.Grants{Mode: policy.Disabled, Tools: []string{"bash"}, Narrow: policy.NarrowNarrow, Merge: policy.MergeIntersection, Rules: rules}
}

// Each of these texts hides a program from a parser, or could. With a rule against the program, it
// never starts, even if the analysis of the text finds nothing.
func TestStarts_StopWhatTextsHide(t *testing.T) {
	t.Parallel()
	box := nativeBox(t)
	texts := append([]string{`echo hi {a['$(zap)']}>f`, ">&-zap", `find f -exec echo {} $(printf +) -exec zap \;`, `[ x -a "$(echo -v)" 'a[$(zap)]' ]`}, sampleTexts(t, "hidden.txt")...)
	every, stopped := testenv.Count(12, 1), 0
	r := policy.Request{Tool: "bash", Effect: policy.SideEffect, Actor: policy.ByModel, Level: "L2", Commands: [][]string{{"ls"}}, Starts: [][]string{{"ls"}}}
	for i, text := range texts {
		if i >= 4 && i%every != 0 {
			continue
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, effect := range []policy.RuleEffect{policy.RuleDeny, policy.RuleAsk} {
			refused, res := watched(t, box, grantsOf(policy.Rule{Effect: effect, Pattern: "Bash(" + denied + ":*)"}), r, sandbox.Job{
				Argv: []string{"bash", "--noprofile", "--norc", "-c", "echo x > f; " + text}, Env: []string{"PATH=/skills/denied/bin:/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"},
				Trees:     []sandbox.Tree{{Path: "/skills/denied", Files: []sandbox.File{{Path: "bin/" + denied, Exec: true, Data: []byte("#!/bin/sh\n: > /workspace/mark\n")}}}},
				Workspace: &sandbox.Workspace{Host: dir, Writable: true}})
			if _, err := os.Stat(filepath.Join(dir, "mark")); err == nil && effect == policy.RuleDeny {
				t.Errorf("%s: the program ran: %s%s", text, res.Stdout, res.Stderr)
			}
			if refused != "" {
				stopped++
			} else if i < 4 {
				t.Errorf("%s: %s: not refused", effect, text)
			}
			_ = os.Remove(filepath.Join(dir, "mark")) // a program that decides itself what it starts is not asked about
		}
	}
	if stopped < 10 {
		t.Errorf("only %d were stopped", stopped)
	}
}

// A rule stops a program that another one loads, contains, or runs as a script, whatever it is called.
func TestStarts_StopWhatOthersRun(t *testing.T) {
	t.Parallel()
	box := nativeBox(t)
	loaders, err := filepath.Glob("/lib*/ld-linux-*.so.*")
	if err != nil || len(loaders) == 0 {
		t.Fatalf("no loader of the C library: %v", err)
	}
	options := strings.Repeat("-P ", 40)
	r := policy.Request{Tool: "bash", Effect: policy.SideEffect, Actor: policy.ByModel, Level: "L2", Commands: [][]string{{"ls"}}, Starts: [][]string{{"ls"}}}
	for text, rule := range map[string]string{
		"ln -s /usr/bin/touch x; LOADER ./x mark":                                                          "touch",
		"ln -s /usr/bin/touch x; exec 3<x; LOADER /proc/self/fd/3 mark":                                    "touch",
		"git -c help.autocorrect=immediate innit -q mark":                                                  "git init",
		"ln -s /usr/bin/touch npm; ln -s npm y; ./y mark":                                                  "npm",
		"LOADER --library-path /usr/bin touch mark":                                                        "touch",
		"ln -s /usr/bin/touch x; LOADER --library-path . x mark":                                           "touch",
		"printf '#!LOADER /usr/bin/touch\\n' > x; chmod +x x; ./x mark":                                    "touch",
		"ln -s /usr/bin/touch y; printf '#!LOADER ./y\\n' > x; chmod +x x; ./x":                            "touch",
		"printf ': > mark\\n' > deploy.sh; ln -s deploy.sh d; bash d":                                      "deploy.sh",
		"printf ': > mark\\n' > deploy.sh; ln -s deploy.sh d; printf '#!/bin/bash\\n' > x; sh -- ./d":      "deploy.sh",
		"printf 'all:\\n\\tgit " + options + "init -q mark\\n' > Makefile; make -s":                        "git init",
		"printf 'all:\\n\\tgit " + options + "-c a.b=c init -q mark\\n' > Makefile; make -s":               "git init",
		"mkdir d; ln -s /usr/bin/touch x; cd d; rmdir ../d; ../x /workspace/mark":                          "touch",
		"mkdir -p d/e; ln -s /usr/bin/touch d/e/x; cd d/e; chmod 0 ..; ./x /workspace/mark; chmod 755 ..":  "touch",
		"mkdir -p /tmp/d/e; ln -s /usr/bin/touch /tmp/d/e/x; cd /tmp/d/e; chmod 0 ..; ./x /workspace/mark": "touch",
	} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "LOADER", loaders[0])
		refused, res := watched(t, box, grantsOf(policy.Rule{Effect: policy.RuleDeny, Pattern: "Bash(" + rule + ":*)"}), r, sandbox.Job{
			Argv: []string{"bash", "--noprofile", "--norc", "-c", text}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"}, Workspace: &sandbox.Workspace{Host: dir, Writable: true}})
		if refused == "" {
			t.Errorf("%s: nothing was refused: %s%s", text, res.Stdout, res.Stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "mark")); err == nil {
			t.Errorf("%s: the program ran", text)
		}
	}
}

// Ordinary commands that need no approval start nothing that does.
func TestStarts_AllowOrdinaryCommands(t *testing.T) {
	t.Parallel()
	box := nativeBox(t)
	ran := 0
	for i, text := range sampleTexts(t, "ordinary.txt") {
		if i%testenv.Count(8, 1) != 0 {
			continue
		}
		facts, err := shell.Facts(text)
		if err != nil {
			t.Fatal(err)
		}
		g := grantsOf()
		r := policy.Request{Tool: "bash", Effect: policy.SideEffect, Actor: policy.ByModel, Level: "L2", Commands: facts.Commands, Starts: facts.Starts, Opaque: facts.Opaque}
		if !policy.Decide(g, r).Allowed() {
			continue
		}
		ran++
		refused, _ := watched(t, box, g, r, sandbox.Job{Argv: []string{"bash", "--noprofile", "--norc", "-c", "git init -q; echo x > f; echo y > f.txt; " + text}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}})
		if refused != "" {
			t.Errorf("%s: %s", text, refused)
		}
	}
	if ran < 20 {
		t.Errorf("only %d ran", ran)
	}
}
