package harness

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"metier/internal/termtext"
)

// Prompt returns the harness as XML for a system prompt: its name, description,
// body, and content with descriptions. The elements are those of the reference
// library for the layout. Unlike that library, Prompt escapes all text and omits
// the attribute of an empty description.
func (h *Harness) Prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<harness name=\"%s\">\n<description>%s</description>\n<overview>\n%s\n</overview>\n", attribute(h.Name), text(h.Description), text(strings.Trim(h.Body, "\n")))
	if h.v2() {
		for _, n := range h.Root.Children {
			n.element(&b, "")
		}
	} else {
		flat(&b, "skills", h.Skills(), func(n *Node) string {
			return fmt.Sprintf(`<skill name="%s">%s</skill>`, attribute(n.Name), text(n.Description))
		})
		flat(&b, "references", h.References(), func(n *Node) string {
			return fmt.Sprintf(`<reference filename="%s">%s</reference>`, attribute(n.Name), text(n.Description))
		})
	}
	b.WriteString("</harness>\n")
	return b.String()
}

// flat writes a list of v1 unless it is empty.
func flat(b *strings.Builder, name string, list []*Node, element func(*Node) string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "<%s>\n", name)
	for _, n := range list {
		b.WriteString("  " + element(n) + "\n")
	}
	fmt.Fprintf(b, "</%s>\n", name)
}

// element writes a node of v2 with its descendants.
func (n *Node) element(b *strings.Builder, indent string) {
	switch {
	case n.Kind == Document:
		fmt.Fprintf(b, "%s<file filename=\"%s\">%s</file>\n", indent, attribute(n.Name), text(n.Description))
	case n.Skill():
		fmt.Fprintf(b, "%s<skill name=\"%s\">%s</skill>\n", indent, attribute(n.Name), text(n.Description))
	case n.Kind == Leaf:
		fmt.Fprintf(b, "%s<leaf name=\"%s\" type=\"%s\">%s</leaf>\n", indent, attribute(n.Base()), attribute(n.Type), text(n.Description))
	default:
		fmt.Fprintf(b, "%s<directory name=\"%s\"", indent, attribute(n.Base()))
		if n.Description != "" {
			fmt.Fprintf(b, " description=\"%s\"", attribute(n.Description))
		}
		b.WriteString(">\n")
		for _, c := range n.Children {
			c.element(b, indent+"  ")
		}
		b.WriteString(indent + "</directory>\n")
	}
}

var (
	textMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	attrMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
)

// attribute returns a value for an attribute: one line without hidden characters.
func attribute(s string) string { return attrMarkup.Replace(termtext.Line(s)) }

// text returns text for an element. Characters that XML does not allow, or that
// control a terminal, become U+FFFD.
func text(s string) string {
	return textMarkup.Replace(strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r >= 0x20 && (r < 0x7f || r > 0x9f) && r != 0xfffe && r != 0xffff && r != utf8.RuneError {
			return r
		}
		if r == '\r' {
			return -1
		}
		return utf8.RuneError
	}, s))
}
