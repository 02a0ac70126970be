//go:build attacks

package sandboxtest

import "testing"

// An attack that does no harm without a sandbox would prove nothing.
func TestEveryAttackBites(t *testing.T) { Controls(t) }
