package cli

import (
	"context"
	"fmt"
	"strings"

	"metier"
	"metier/policy"
	"metier/record"
)

// secretConfig is a variable that scripts of one skill get.
type secretConfig struct {
	Skill string `yaml:"skill"` // ID, or name of a skill that is not a project's or a third party's
	Name  string `yaml:"name"`  // of the variable in the script's environment
	Env   string `yaml:"env"`   // variable of this process that holds the value
	File  string `yaml:"file"`  // or a file that does, relative to the configuration's folder
}

// maxSecret is the longest value.
const maxSecret = 64 << 10

// scriptSecrets gives a skill's scripts the variables the operator's
// configuration declares for it. One that has no value is an error: a script
// that needs it would fail in a way nobody understands.
func (a *app) scriptSecrets(list []secretConfig) func(context.Context, metier.Skill) ([]record.Secret, error) {
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
			v, err := a.secretValue(c)
			if err != nil {
				return nil, err
			}
			out = append(out, record.Secret{Name: c.Name, Value: v})
		}
		return out, nil
	}
}

func (a *app) secretValue(c secretConfig) (string, error) {
	if c.Env != "" {
		if v := a.env[c.Env]; v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the secret %s is declared for %s, and the variable %s is not set", c.Name, c.Skill, c.Env)
	}
	b, err := readNamed(c.File, maxSecret)
	if err != nil {
		return "", fmt.Errorf("the secret %s is declared for %s: %w", c.Name, c.Skill, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// checkSecrets says what of a list makes no sense.
func checkSecrets(file string, list []secretConfig) error {
	for _, c := range list {
		if c.Skill == "" || c.Name == "" || (c.Env == "") == (c.File == "") || strings.ContainsAny(c.Name, "=\x00") {
			return wrong("config_invalid", "each secret has skill, name, and env or file", "%s: a secret needs a skill, the name of a variable, and one place its value is in", file)
		}
	}
	return nil
}
