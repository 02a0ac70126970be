//go:build attacks

package sandboxtest

import "testing"

// A way that does no harm where nothing stops it would prove nothing.
func TestEveryAttackBites(t *testing.T) { Controls(t) }
