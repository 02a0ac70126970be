package yaml

import (
	"errors"
	"testing"
)

// FuzzParse: no panic, every error is an *Error with a position inside the text, and no tree
// exceeds a limit.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a: b", "a: [b, {c: 'd'}]", "a: |\n  b\n", "&a b: *a", "- - - a", "? a\n: b", "a: b\r\nc: \"\\u00e9\"", "%YAML 1.2\n---\na"} {
		f.Add([]byte(s))
	}
	o := &Options{MaxBytes: 4 << 10, MaxDepth: 6, MaxNodes: 100}
	f.Fuzz(func(t *testing.T, src []byte) {
		n, err := Parse(src, o)
		var e *Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Fatalf("%T is not an *Error", err)
		case err != nil && (e.Line < 1 || e.Column < 1 || e.Code == "" || e.Msg == ""):
			t.Fatalf("incomplete error %+v", e)
		case err == nil:
			if count, depth := measure(n); count > o.MaxNodes || depth > o.MaxDepth {
				t.Fatalf("%d nodes, %d deep", count, depth)
			}
		}
	})
}

func measure(n *Node) (count, depth int) {
	count = 1
	deepest := 0
	visit := func(c *Node) {
		m, d := measure(c)
		count, deepest = count+m, max(deepest, d)
	}
	for _, item := range n.Items {
		visit(item)
	}
	for _, e := range n.Entries {
		visit(e.Key)
		visit(e.Value)
	}
	if n.Kind != Scalar {
		deepest++
	}
	return count, deepest
}
