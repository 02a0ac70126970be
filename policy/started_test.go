package policy_test

import (
	"strings"
	"testing"

	"metier/internal/shell"
	"metier/policy"
)

// Deny rules apply to every program that a call starts. Questions apply to those that the call itself
// starts, unless its text stated them.
func TestDecideStart(t *testing.T) {
	t.Parallel()
	words := func(lines ...string) (out [][]string) {
		for _, l := range lines {
			out = append(out, strings.Fields(l))
		}
		return shell.Lines(out)
	}
	deny, ask, allow := policy.RuleDeny, policy.RuleAsk, policy.RuleAllow
	unknown := [][]string(nil)
	many := [][]string{{"find", "a", policy.Dynamic}}
	for _, tt := range []struct {
		name, src string
		effect    policy.RuleEffect
		pattern   string
		lines     [][]string
		nested    bool // another program started it
		want      string
	}{
		{"a denied program", "make", deny, "Bash(touch:*)", words("touch x", "/usr/bin/touch x"), true, policy.CodeRuleDenied},
		{"a denied program, by its file", "ls", deny, "Bash(touch:*)", words("./x y", "/usr/bin/touch y"), false, policy.CodeRuleDenied},
		{"a denied interpreter", "./x", deny, "Bash(python3:*)", words("./x", "#! /usr/bin/python3 ./x"), false, policy.CodeRuleDenied},
		{"an interpreter, which no one asks about", "./x", ask, "Bash(python3:*)", words("./x", "#! /usr/bin/python3 ./x"), false, ""},
		{"a destructive interpreter", "./x", allow, "Bash(ls)", words("./x", "#! /usr/bin/rm ./x"), false, ""},
		{"a denied subcommand", "make", deny, "Bash(git push:*)", words("git -C a push"), true, policy.CodeRuleDenied},
		{"another subcommand", "make", deny, "Bash(git push:*)", words("git status"), true, ""},
		{"another program", "make", deny, "Bash(touch:*)", words("cc touch.c"), true, ""},
		{"a program of busybox", "make", deny, "Bash(touch:*)", words("busybox touch x"), true, policy.CodeRuleDenied},
		{"a program by the loader", "ls", deny, "Bash(touch:*)", words("/lib64/ld-linux-x86-64.so.2 --argv0 a /usr/bin/touch x"), false, policy.CodeRuleDenied},
		{"an unknown program", "make", deny, "Bash(touch:*)", unknown, true, policy.CodeRuleDenied},
		{"an unknown program without deny rules", "make", allow, "Bash(make:*)", unknown, true, ""},
		{"missing words", "ls", deny, "Bash(find a x:*)", many, false, policy.CodeRuleDenied},
		{"a rule that asks", "ls", ask, "Bash(curl:*)", words("curl x"), false, policy.CodeRuleAsk},
		{"a rule that asked", "curl x", ask, "Bash(curl:*)", words("curl x"), false, ""},
		{"a rule that asked about the unknown", `"$x"`, ask, "Bash(curl:*)", words("curl x"), false, ""},
		{"a rule that asks, nested", "make", ask, "Bash(curl:*)", words("curl x"), true, ""},
		{"a rule that asks about another", "ls; curl y", ask, "Bash(curl x:*)", words("curl x"), false, policy.CodeRuleAsk},
		{"an unknown program with a rule that asks", "ls", ask, "Bash(curl:*)", unknown, false, policy.CodeRuleAsk},
		{"destructive", "ls", allow, "Bash(ls)", words("rm x"), false, policy.CodeDestructive},
		{"destructive, by its file", "./x y", allow, "Bash(ls)", words("./x y", "/usr/bin/rm y"), false, policy.CodeDestructive},
		{"destructive, asked", "rm y", allow, "Bash(ls)", words("rm x"), false, ""},
		{"destructive, nested", "make clean", allow, "Bash(ls)", words("rm x"), true, ""},
		{"destructive, allowed", "ls", allow, "Bash(rm:*)", words("rm x", "/usr/bin/rm x"), false, ""},
		{"destructive, under an allowed name", "ls", allow, "Bash(rm:*)", words("rm x", "/usr/bin/shred x"), false, policy.CodeDestructive},
		{"another destructive one", "rm y", allow, "Bash(ls)", words("git clean -f"), false, policy.CodeDestructive},
		{"an unknown one", "ls", allow, "Bash(ls)", unknown, false, policy.CodeDestructive},
		{"missing words, destructive", "ls", allow, "Bash(ls)", many, false, policy.CodeDestructive},
		{"missing words, asked", "find a -delete", allow, "Bash(ls)", many, false, ""},
	} {
		g := policy.Grants{Mode: policy.Disabled, Tools: []string{"bash"}, Narrow: policy.NarrowNarrow, Merge: policy.MergeIntersection, Rules: []policy.Rule{{Effect: tt.effect, Pattern: tt.pattern}}}
		p := policy.Started{Direct: !tt.nested}
		for _, l := range tt.lines {
			if l[0] == "#!" {
				p.Interpreters = append(p.Interpreters, l[1:])
			} else {
				p.Lines = append(p.Lines, l)
			}
		}
		d := policy.DecideStart(&g, bash(tt.src), p)
		if d.Code != tt.want || d.Allowed() != (tt.want == "") || !d.Allowed() && (d.Reason == "" || d.Rule == "") {
			t.Errorf("%s: %+v, want %q", tt.name, d, tt.want)
		}
		r := bash(tt.src)
		r.Actor = policy.ByOperator
		if d := policy.DecideStart(&g, r, p); d.Allowed() != (tt.want != policy.CodeRuleDenied) {
			t.Errorf("%s, by the operator: %+v", tt.name, d)
		}
	}
}

// Rules for a skill, and approvals by a skill's list, count as they do for the call.
func TestDecideStart_FollowsSkills(t *testing.T) {
	t.Parallel()
	g := policy.Grants{Mode: policy.Disabled, Tools: []string{"bash"}, Narrow: policy.NarrowPreapprove, Merge: policy.MergeIntersection, Rules: []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash(touch:*)", Skill: "a"}}}
	r := bash("make")
	start := func(line string) string {
		return policy.DecideStart(&g, r, policy.Started{Lines: [][]string{strings.Fields(line)}, Direct: true}).Code
	}
	if got := start("touch x") + start("rm x"); got != policy.CodeDestructive {
		t.Errorf("without a skill: %q", got)
	}
	r = bash("make")
	r.Active = []policy.Subject{{ID: "s:a", Name: "a", Tier: policy.Org, Declared: true, AllowedTools: []string{"Bash"}}}
	if got := start("touch x") + start("rm x"); got != policy.CodeRuleDenied {
		t.Errorf("with a skill: %q", got)
	}
}
