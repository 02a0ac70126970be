package exectool

import (
	"metier/policy"
	"metier/sandbox"
)

// Watch returns the check of the programs that a command starts, and the one that it refused.
func Watch(check func(policy.Started) policy.Decision) (exec func(sandbox.Exec) (passes bool, err error), refused func() string) {
	w := &watched{check: check}
	return w.exec, func() string { return w.program }
}
