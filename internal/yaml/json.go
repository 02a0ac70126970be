package yaml

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Number formats of the YAML 1.2 core schema.
var (
	octal   = regexp.MustCompile(`^0o[0-7]+$`)
	hex     = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	decimal = regexp.MustCompile(`^([-+]?)([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+)?$`)
	special = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN)$`)
)

// mostKey is the maximum length of a key in bytes. YAML limits a key to 1,024 characters, including
// quotes and escapes.
const mostKey = 1000

// AppendJSON appends the value as JSON, with the types of the YAML 1.2 core schema: plain scalars
// can be null, booleans, or numbers, and numbers keep their digits. Keys become strings as in
// JavaScript: 1.0 is "1" and ~ is "". It fails for values that JSON cannot represent (infinity,
// NaN, numbers beyond a double) and for keys that become equal. The error is an [*Error].
func (n *Node) AppendJSON(b []byte) ([]byte, error) {
	switch n.Kind {
	case List:
		return n.appendList(b)
	case Map:
		return n.appendMap(b)
	}
	if n.Null() {
		return append(b, "null"...), nil
	}
	if v, ok := n.Bool(); ok {
		return strconv.AppendBool(b, v), nil
	}
	num, is, err := n.number()
	switch {
	case err != nil:
		return b, err
	case is:
		return append(b, num...), nil
	}
	return appendText(b, n.Text), nil
}

func appendText(b []byte, s string) []byte {
	j, _ := json.Marshal(s) // a string always marshals
	return append(b, j...)
}

func (n *Node) appendList(b []byte) (_ []byte, err error) {
	b = append(b, '[')
	for i, item := range n.Items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = item.AppendJSON(b); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func (n *Node) appendMap(b []byte) (_ []byte, err error) {
	seen := make(map[string]bool, len(n.Entries))
	b = append(b, '{')
	for i, e := range n.Entries {
		key, err := e.Key.key()
		switch {
		case err != nil:
			return b, err
		case len(e.Key.Text) > mostKey:
			return b, e.Key.fail("a key has more than %d bytes, which YAML readers may refuse", mostKey)
		case seen[key]:
			return b, e.Key.fail("another key of this map is also %q in JSON", clip(key))
		}
		seen[key] = true
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, key), ':')
		if b, err = e.Value.AppendJSON(b); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// key returns a key as JavaScript's String() formats its value.
func (n *Node) key() (string, error) {
	if n.Null() {
		return "", nil
	}
	if v, ok := n.Bool(); ok {
		return strconv.FormatBool(v), nil
	}
	num, is, err := n.number()
	if err != nil || !is {
		return n.Text, err
	}
	v, _ := strconv.ParseFloat(num, 64) // number has parsed it
	if v == 0 {
		return "0", nil // also -0
	}
	j, _ := json.Marshal(v) // writes a finite number as ECMAScript does
	return string(j), nil
}

// number returns a plain scalar as a JSON number. is reports whether it is one.
func (n *Node) number() (text string, is bool, err error) {
	if n.Kind != Scalar || n.Style != Plain || n.Text == "" || len(n.Text) > 1 && n.Text[0] > '9' {
		return "", false, nil
	}
	s := n.Text
	switch {
	case special.MatchString(s):
		return "", true, n.fail("%s has no JSON form; put it in quotes", clip(s))
	case octal.MatchString(s), hex.MatchString(s):
		base := map[byte]int{'o': 8, 'x': 16}[s[1]]
		v, _ := new(big.Int).SetString(s[2:], base) // the pattern holds only digits of the base
		text = v.String()
	default:
		m := decimal.FindStringSubmatch(s)
		if m == nil || m[2] == "" && m[3] == "" {
			return "", false, nil
		}
		text = strings.TrimPrefix(m[1], "+") + whole(m[2])
		if m[3] != "" {
			text += "." + m[3]
		}
		text += m[4]
	}
	if v, err := strconv.ParseFloat(text, 64); err != nil && math.IsInf(v, 0) {
		return "", true, n.fail("the number %s is too large for JSON readers; put it in quotes", clip(s))
	}
	return text, true, nil
}

// whole returns the integer digits without leading zeros, as JSON requires.
func whole(digits string) string {
	if d := strings.TrimLeft(digits, "0"); d != "" {
		return d
	}
	return "0"
}

func (n *Node) fail(format string, args ...any) *Error {
	return &Error{Line: n.Line, Column: n.Column, Code: NoJSON, Msg: fmt.Sprintf(format, args...)}
}
