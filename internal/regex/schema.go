package regex

import (
	"fmt"
	"strings"
)

// maxStates is the maximum total number of states of all expressions in a schema.
const maxStates = 5000

// CheckSchema returns an error for a decoded JSON schema whose expressions have so many states that
// validating a value could take very long. It ignores invalid expressions.
func CheckSchema(schema any) error {
	if left := spend(schema, maxStates); left < 0 {
		return fmt.Errorf("its patterns have more than %d states, and matching them could take very long; use smaller repetitions", maxStates)
	}
	return nil
}

// spend subtracts the states of all expressions below v from a budget. Keys match in any case, as
// in package encoding/json.
func spend(v any, left int) int {
	take := func(expr string) {
		n, _ := States(expr)
		left -= n
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			left = spend(x, left)
		}
	case map[string]any:
		for key, x := range v {
			if p, is := x.(string); is && strings.EqualFold(key, "pattern") {
				take(p)
			}
			if by, is := x.(map[string]any); is && strings.EqualFold(key, "patternProperties") {
				for p := range by {
					take(p)
				}
			}
			left = spend(x, left)
		}
	}
	return left
}
