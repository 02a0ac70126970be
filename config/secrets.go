package config

import (
	"fmt"
	"strings"

	"metier"
	"metier/internal/namedfile"
)

// Secret is a variable that the scripts of one skill receive.
type Secret struct {
	Skill string `yaml:"skill"` // ID, or name of a skill that is not a project's or a third party's
	Name  string `yaml:"name"`  // of the variable in the script's environment
	Env   string `yaml:"env"`   // variable of this process that holds the value
	File  string `yaml:"file"`  // or a file that does, relative to the configuration's folder
}

// maxSecret is the longest value, in bytes.
const maxSecret = 64 << 10

// Value reads the secret.
func (c Secret) Value(env Env) (string, error) {
	if c.Env != "" {
		if v := env.Get(c.Env); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the secret %s is declared for %s, and the variable %s is not set", c.Name, c.Skill, c.Env)
	}
	b, err := namedfile.Read(c.File, maxSecret)
	if err != nil {
		return "", fmt.Errorf("the secret %s is declared for %s: %w", c.Name, c.Skill, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// checkSecrets checks the entries of a configuration file.
func checkSecrets(file string, list []Secret) error {
	for _, c := range list {
		if c.Skill == "" || c.Name == "" || (c.Env == "") == (c.File == "") || strings.ContainsAny(c.Name, "=\x00") {
			return metier.Errorf(metier.Invalid, "config_invalid", "each secret has skill, name, and env or file", "%s: a secret needs a skill, the name of a variable, and one source for its value", file)
		}
	}
	return nil
}
