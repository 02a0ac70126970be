// Package intake checks JSON before the protocol library decodes it. The library accepts 1,000
// levels of nesting, and its decoding time grows with the square of the depth. A decoded value takes
// up to a hundred times the bytes of its text.
package intake

import (
	"cmp"
	"errors"
	"fmt"
)

// Deepest is the default maximum nesting depth of a message.
const Deepest = 100

// Guard checks the size, the nesting depth, and the number of values of messages.
type Guard struct {
	Most int64 // bytes of one message; 0: unlimited
	Deep int64 // nesting depth; 0: Deepest
	Many int64 // values; 0: unlimited

	depth, size, n  int64
	quoted, escaped bool
}

// Errors of See.
var (
	ErrTooDeep = fmt.Errorf("JSON is nested more than %d deep", Deepest)
	ErrTooMuch = errors.New("it sends too much")
	ErrTooMany = errors.New("JSON has too many values")
)

// See checks the next bytes.
func (g *Guard) See(p []byte) error {
	deepest := cmp.Or(g.Deep, Deepest)
	for _, b := range p {
		g.size++
		switch {
		case b == '\n': // a string cannot contain a line break
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
			g.n++
		case b == ',':
			g.n++
		case (b == '}' || b == ']') && g.depth > 0:
			if g.depth--; g.depth == 0 {
				g.size, g.n = 0, 0
			}
		}
		if g.Many > 0 && g.n > g.Many {
			return fmt.Errorf("%w, more than %d", ErrTooMany, g.Many)
		}
	}
	if g.Most > 0 && g.size > g.Most {
		return ErrTooMuch
	}
	return nil
}
