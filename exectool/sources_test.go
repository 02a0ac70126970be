package exectool_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/exectool"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

// closed is a source whose scripts cannot be opened.
type closed struct {
	metier.Source
	err error
}

type closedBundle struct {
	metier.Bundle
	err error
}

func (s closed) Open(ctx context.Context, p string) (metier.Bundle, error) {
	b, err := s.Source.Open(ctx, p)
	return closedBundle{b, s.err}, err
}

func (b closedBundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	if strings.HasPrefix(file, "scripts/") {
		return nil, b.err
	}
	return b.Bundle.Open(ctx, file)
}

// A source knows best why it has no file. The codes of a missing file are those of scripts.
func TestScript_FailsWithTheReasonOfItsSource(t *testing.T) {
	t.Parallel()
	for code, tt := range map[string]struct {
		err  error
		want string
	}{
		"mcp_digest_mismatch": {&metier.Error{Kind: metier.Drift, Code: "mcp_digest_mismatch", Hint: "start a new run", Err: errors.New("it differs")},
			`mcp_digest_mismatch: run: skill "demo": "scripts/a.sh": it differs; start a new run`},
		"mcp_timeout":       {&metier.Error{Kind: metier.Unavailable, Code: "mcp_timeout", Err: errors.New("no answer")}, `mcp_timeout: run: skill "demo": "scripts/a.sh": no answer`},
		"script_not_found":  {&metier.Error{Kind: metier.NotFound, Code: "gone", Err: errors.New("gone")}, `script_not_found: run: skill "demo": "scripts/a.sh": gone`},
		"permission_denied": {&metier.Error{Kind: metier.Denied, Code: "permission_denied", Err: errors.New("no access")}, `permission_denied: run: skill "demo": "scripts/a.sh": no access`},
		"unknown":           {errors.New("no code"), `unknown: run: skill "demo": "scripts/a.sh": no code`},
	} {
		w := newFixture(t, setup{source: func(s metier.Source) metier.Source { return closed{s, tt.err} }}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n"}))
		o := w.run("scripts/a.sh")
		w.refuses(code, o)
		if diff := cmp.Diff(tt.want, strings.TrimSpace(o.Text())); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
}

// The files of a skill inside another are also files of that one. Its own rule restricts its scripts.
func TestScript_OfANestedSkillHasItsRule(t *testing.T) {
	t.Parallel()
	for effect, want := range map[policy.RuleEffect]string{policy.RuleAllow: "", policy.RuleAsk: policy.CodeSkillAsk, policy.RuleDeny: policy.CodeSkillDenied} {
		files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n", "scripts/in/scripts/b.sh": "#!/bin/bash\necho ran\n",
			"scripts/in/SKILL.md": "---\nname: in\ndescription: Use when scripts are nested.\n---\nRun them.\n"})
		w := newFixture(t, setup{idle: true, local: &local.Options{Nested: settings.NestedYes}, grants: func(g *policy.Grants) {
			g.Skills = []policy.SkillRule{{Effect: effect, Skill: "in"}}
		}}, files)
		if _, err := w.s.Activate(t.Context(), "demo", "cli-preload"); err != nil {
			t.Fatal(err)
		}
		w.ran("scripts/a.sh")
		o, asks := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/in/scripts/b.sh"})
		got := o.Code()
		if asks != nil {
			got = asks.Question.Code
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: code (-want +got):\n%s", effect, diff)
		}
	}
}
