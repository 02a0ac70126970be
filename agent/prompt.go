package agent

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"metier"
)

var (
	//go:embed prompts/base.md
	baseText string
	//go:embed prompts/skills.md
	skillsText string
	//go:embed prompts/code.md
	codeText string
	//go:embed prompts/plan.md
	planText string
	//go:embed prompts/compact.md
	compactText string
)

// modeText is what a mode adds to the base.
var modeText = map[string]string{ModeCode: codeText, ModePlan: planText}

// Prompt is what the system prompt is put together from.
type Prompt struct {
	// Base replaces the built-in text. The built-in text about skills follows
	// it if there are skills.
	Base string
	// Workspace is the model's path of the workspace; "" omits it from the
	// prompt.
	Workspace string
	// Project is the project's own instructions (AGENTS.md), context for the
	// model. The catalog follows it.
	Project string
	// Prepare, if set, returns text that is appended last, so that a host can
	// add its own fragment. The catalog of skills comes before it.
	Prepare func(ctx context.Context, s *metier.Session) (string, error)
}

// build returns the system prompt for the current session.
func (p Prompt) build(ctx context.Context, s *metier.Session, mode string) (string, metier.Catalog, error) {
	parts := []string{strings.TrimSpace(p.Base)}
	if p.Base == "" {
		parts[0] = strings.TrimSpace(baseText)
	}
	if usable, _ := s.Snapshot().Count(); usable > 0 {
		parts = append(parts, strings.TrimSpace(skillsText))
	}
	if text := modeText[mode]; text != "" {
		parts = append(parts, strings.TrimSpace(text))
	}
	if p.Workspace != "" {
		parts = append(parts, p.Workspace)
	}
	if p.Project != "" {
		parts = append(parts, "Instructions of the project:\n\n"+strings.TrimSpace(p.Project))
	}
	var cat metier.Catalog
	skills := func(ctx context.Context, s *metier.Session) (string, error) {
		if cat = s.Catalog(ctx); !cat.InSystem() {
			return "", nil // it stands beside a tool
		}
		return cat.Text, nil
	}
	for _, prepare := range []func(context.Context, *metier.Session) (string, error){skills, p.Prepare} { // in every mode
		if prepare == nil {
			continue
		}
		fragment, err := prepare(ctx, s)
		if err != nil {
			return "", cat, fmt.Errorf("prepare the system prompt: %w", err)
		}
		if fragment != "" {
			parts = append(parts, fragment)
		}
	}
	return strings.Join(parts, "\n\n") + "\n", cat, nil
}
