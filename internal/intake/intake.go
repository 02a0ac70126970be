// Package intake looks at JSON before the protocol library decodes it. The library
// takes 1,000 objects and lists in one another, and spends time with the square of
// that.
package intake

import (
	"cmp"
	"errors"
	"fmt"
)

// Deepest is how many objects and lists of a message may be in one another.
const Deepest = 100

// Guard looks at how long and how deep messages are.
type Guard struct {
	Most int64 // bytes of one message; 0: any number
	Deep int64 // objects and lists in one another; 0: Deepest

	depth, size     int64
	quoted, escaped bool
}

// What See reports.
var (
	ErrTooDeep = fmt.Errorf("JSON is nested more than %d deep", Deepest)
	ErrTooMuch = errors.New("it sends too much")
)

// See reports what is wrong with the next bytes.
func (g *Guard) See(p []byte) error {
	deepest := cmp.Or(g.Deep, Deepest)
	for _, b := range p {
		g.size++
		switch {
		case b == '\n': // no string goes over a line
			g.quoted, g.escaped = false, false
		case g.quoted:
			switch {
			case g.escaped:
				g.escaped = false
			case b == '\\':
				g.escaped = true
			case b == '"':
				g.quoted = false
			}
		case b == '"':
			g.quoted = true
		case b == '{' || b == '[':
			if g.depth++; g.depth > deepest {
				return ErrTooDeep
			}
		case (b == '}' || b == ']') && g.depth > 0:
			if g.depth--; g.depth == 0 {
				g.size = 0
			}
		}
	}
	if g.Most > 0 && g.size > g.Most {
		return ErrTooMuch
	}
	return nil
}
