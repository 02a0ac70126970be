package pagetext

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Elements that a parser reopens in each block cost time in proportion to their
// length, with few attributes and many, even in what looks like text to one
// reading.
func TestOpenElementsAreNotCopiedIntoEachBlock(t *testing.T) {
	t.Parallel()
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, page := range map[string]string{
		"formatting":    "<p>" + many("<b a=%d>", 400),
		"no attributes": "<p>" + strings.Repeat("<b><i><u><s><tt><em><big><font><code><small><strong><strike><nobr>", 3),
		"attributes":    "<p><a " + many("x%d ", 500) + ">",
		"addresses":     "<p><a href=" + strings.Repeat("x", 5_000) + ">",
		"styles":        "<p><a style='" + strings.Repeat("x ", 5_000) + "'>",
		"in a drawing":  "<svg><title>" + many("<b a=%d>", 400),
		"in style":      "<svg><style>" + many("<b a=%d>", 400),
	} {
		page += strings.Repeat("<p>x", 5_000)
		doc, err := html.ParseWithOptions(strings.NewReader(plain(page)), html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Fatal(err)
		}
		if n := cost(doc); n > len(page) {
			t.Errorf("%s: a page of %d bytes becomes elements, attributes and bytes of them: %d", name, len(page), n)
		}
	}
}

// cost counts the nodes and attributes below n, with the length of the text
// read for each.
func cost(n *html.Node) (sum int) {
	for d := range n.Descendants() {
		sum++
		for _, a := range d.Attr {
			sum += 1 + len(a.Val)
		}
	}
	return sum
}
