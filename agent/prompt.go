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
	//go:embed prompts/plan.md
	planText string
	//go:embed prompts/compact.md
	compactText string
)

// Prompt is what the system prompt is put together from.
type Prompt struct {
	// Base replaces the built-in text. What it says about skills (A-117..A-121)
	// follows it wherever there are skills.
	Base string
	// Workspace says where files are, in the model's paths; "" says nothing.
	Workspace string
	// Project is the project's own instructions (AGENTS.md), context for the
	// model. The catalog follows it (B-041).
	Project string
	// Prepare, if any, returns what is appended last: the hook by which a host
	// adds its fragment.
	Prepare func(ctx context.Context, s *metier.Session) (string, error)
}

// build returns the system prompt for the session as it stands.
func (p Prompt) build(ctx context.Context, s *metier.Session, mode string) (string, metier.Catalog, error) {
	parts := []string{strings.TrimSpace(p.Base)}
	if p.Base == "" {
		parts[0] = strings.TrimSpace(baseText)
	}
	if len(s.Snapshot().Skills()) > 0 {
		parts = append(parts, strings.TrimSpace(skillsText))
	}
	if mode == ModePlan {
		parts = append(parts, strings.TrimSpace(planText))
	}
	if p.Workspace != "" {
		parts = append(parts, p.Workspace)
	}
	if p.Project != "" {
		parts = append(parts, "Instructions of the project:\n\n"+strings.TrimSpace(p.Project))
	}
	cat := s.Catalog(ctx)
	if cat.InSystem() {
		parts = append(parts, cat.Text)
	}
	if p.Prepare != nil {
		fragment, err := p.Prepare(ctx, s)
		if err != nil {
			return "", cat, fmt.Errorf("prepare the system prompt: %w", err)
		}
		if fragment != "" {
			parts = append(parts, fragment)
		}
	}
	return strings.Join(parts, "\n\n") + "\n", cat, nil
}
