package engine

import (
	"context"
	"fmt"
	"strings"

	"metier"
	"metier/config"
	"metier/policy"
	"metier/record"
)

// scriptSecrets gives a skill's scripts the variables the operator's
// configuration declares for it. One that has no value is an error: a script
// that needs it would fail in a way nobody understands.
func (e *Engine) scriptSecrets(list []config.Secret) func(context.Context, metier.Skill) ([]record.Secret, error) {
	return func(_ context.Context, sk metier.Skill) ([]record.Secret, error) {
		var out []record.Secret
		for _, c := range list {
			if c.Skill != sk.ID.String() {
				if !strings.EqualFold(c.Skill, sk.Name) {
					continue
				}
				// Whoever writes a repository chooses the names of its skills.
				if tier := sk.Tier.Or(); tier == policy.Project || tier == policy.ThirdParty {
					return nil, fmt.Errorf("the secret %s is declared for the skill %s by its name, which does not cover %s, a skill of tier %s; name the ID in the configuration if that one is to have it",
						c.Name, c.Skill, sk.ID, tier)
				}
			}
			v, err := c.Value(e.Env)
			if err != nil {
				return nil, err
			}
			out = append(out, record.Secret{Name: c.Name, Value: v})
		}
		return out, nil
	}
}
