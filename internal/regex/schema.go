package regex

import (
	"fmt"
	"strings"
)

// maxStates bounds the states of all expressions of a schema.
const maxStates = 5000

// CheckSchema refuses a JSON schema, as decoded JSON, whose expressions have so
// many states that comparing a value with them could take very long. One that
// is no expression is for others to report.
func CheckSchema(schema any) error {
	if left := spend(schema, maxStates); left < 0 {
		return fmt.Errorf("its patterns have more than %d states, and matching them could take very long; use smaller repetitions", maxStates)
	}
	return nil
}

// spend takes the states of all expressions below v off a budget. Keys count in
// any case, as package encoding/json reads them.
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
