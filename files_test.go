package metier_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/policy"
	"metier/settings"
)

// closed is a source whose files cannot be opened.
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

func (b closedBundle) Open(context.Context, string) (io.ReadCloser, error) { return nil, b.err }

// withClosed is a session over the skill a, whose files cannot be opened because of err.
func withClosed(t *testing.T, err error) *fixture {
	t.Helper()
	w := newFixture(t, settings.DefaultProfile, map[string]string{"skills/a/SKILL.md": skillFile("a", "A.\n"), "skills/a/references/r.md": "r"})
	m := w.mount("skills", policy.Project)
	m.Source = closed{m.Source, err}
	w.roots = []metier.Mount{m}
	return w.open()
}

func TestRead_FailsWithTheReasonOfItsSource(t *testing.T) {
	t.Parallel()
	for code, tt := range map[string]struct {
		err  error
		want string
	}{
		"mcp_digest_mismatch": {&metier.Error{Kind: metier.Drift, Code: "mcp_digest_mismatch", Hint: "start a new run", Err: errors.New("it differs")},
			`mcp_digest_mismatch: read: skill "a": "references/r.md": it differs; start a new run`},
		"mcp_timeout":        {&metier.Error{Kind: metier.Unavailable, Code: "mcp_timeout", Err: errors.New("no answer")}, `mcp_timeout: read: skill "a": "references/r.md": no answer`},
		"resource_too_large": {&metier.Error{Kind: metier.LimitReached, Code: "resource_too_large", Err: errors.New("too long")}, `resource_too_large: read: skill "a": "references/r.md": too long`},
		"resource_not_found": {&metier.Error{Kind: metier.NotFound, Code: "gone", Err: errors.New("gone")}, `resource_not_found: read: skill "a": "references/r.md": gone`},
		"resource_not_file":  {&metier.Error{Kind: metier.Invalid, Code: "odd", Err: errors.New("a pipe")}, `resource_not_file: read: skill "a": "references/r.md": a pipe`},
		"unknown":            {errors.New("no code"), `unknown: read: skill "a": "references/r.md": no code`},
	} {
		o := withClosed(t, tt.err).fails(code, resourceCall, args{"skill": "a", "path": "references/r.md"})
		if diff := cmp.Diff(tt.want, o.Text()); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
}

func TestActivate_FailsWithTheReasonOfItsSource(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err, want *metier.Error
	}{
		{&metier.Error{Kind: metier.Drift, Code: "mcp_digest_mismatch", Hint: "start a new run"}, &metier.Error{Kind: metier.Drift, Code: "mcp_digest_mismatch", Hint: "start a new run"}},
		{&metier.Error{Kind: metier.Denied, Code: "permission_denied"}, &metier.Error{Kind: metier.Denied, Code: "skill_unreadable"}},
		{&metier.Error{Kind: metier.NotFound, Code: "gone"}, &metier.Error{Kind: metier.NotFound, Code: "skill_unreadable"}},
		{&metier.Error{Kind: metier.Unavailable, Code: "mcp_timeout"}, &metier.Error{Kind: metier.Unavailable, Code: "skill_unreadable"}},
	} {
		tt.err.Op = "open"
		_, err := withClosed(t, tt.err).Activate(t.Context(), "a", "cli-preload")
		e, is := errors.AsType[*metier.Error](err)
		if !is {
			t.Fatalf("%s: %v", tt.err.Code, err)
		}
		if diff := cmp.Diff(tt.want, &metier.Error{Kind: e.Kind, Code: e.Code, Hint: e.Hint}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.err.Code, diff)
		}
	}
}

func TestActivate_IsDeniedByRules(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]func(*metier.Config){
		"skill_denied": func(c *metier.Config) { c.Grants.Denied = []string{"a"} },
		"rule_denied": func(c *metier.Config) {
			c.Grants.Rules = []policy.Rule{{Effect: policy.RuleDeny, Pattern: "load_skill"}}
		},
	} {
		w := newFixture(t, settings.DefaultProfile, map[string]string{"skills/a/SKILL.md": skillFile("a", "A.\n")})
		w.config = change
		_, err := w.open().Activate(t.Context(), "a", "cli-preload")
		if diff := cmp.Diff([]string{code, string(metier.Denied)}, []string{metier.CodeOf(err), string(metier.KindOf(err))}); diff != "" {
			t.Errorf("code and kind of %v (-want +got):\n%s", err, diff)
		}
	}
}
