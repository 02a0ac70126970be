//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"testing"

	"metier/sandbox"
)

// Whether programs can be checked is known when the job's own program starts. A later failure ends a
// program that may have had effects.
func TestResult_UncheckedPrograms(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{false, true} {
		r := &running{execs: &execs{began: began, failed: errors.New("no calls arrive")}}
		_, err := r.result(t.Context(), nil)
		if _, lost := errors.AsType[*sandbox.Lost](err); lost != began {
			t.Errorf("began %t: error %v, lost %t, want %t", began, err, lost, began)
		}
		if _, unavailable := errors.AsType[*sandbox.Unavailable](err); unavailable == began {
			t.Errorf("began %t: error %v, unavailable %t, want %t", began, err, unavailable, !began)
		}
	}
}
