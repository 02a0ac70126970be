package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"metier/engine"
)

// programFlags are the flags of commands that may run programs.
type programFlags struct {
	scripts []string
	hosts   []string
	sandbox string
	policy  []string
}

func (f *programFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.scripts, "allow-skill-script", nil, "allow, and approve as it is, exactly this script: SKILL:scripts/PATH (repeatable)")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "let programs and web_fetch reach this host, or *.host (repeatable; default: none)")
	fl.StringVar(&f.sandbox, "sandbox", "", "what programs run in: "+strings.Join(engine.Backends(), ", ")+" (default native)")
	fl.StringArrayVar(&f.policy, "policy", nil, "policy file: grants, rules and approvals, see docs/POLICY.md (repeatable)")
}

// request fills what the flags ask of programs.
func (f programFlags) request(q *engine.Request) {
	q.Scripts, q.Hosts, q.Sandbox, q.Policies = f.scripts, f.hosts, f.sandbox, f.policy
}
