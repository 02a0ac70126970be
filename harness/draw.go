package harness

import (
	"strings"

	"metier/internal/termtext"
)

// Draw returns the tree as text for a terminal, one line per node with its
// description. Lines are cut to width columns; 0 disables this.
func (h *Harness) Draw(width int) string {
	var b strings.Builder
	line := func(s string) {
		if r := []rune(s); width > 1 && len(r) > width {
			s = string(r[:width-1]) + "…"
		}
		b.WriteString(s + "\n")
	}
	line(about(termtext.Line(h.Root.Name), h.Description))
	var walk func(n *Node, indent string)
	walk = func(n *Node, indent string) {
		for i, c := range n.Children {
			branch, below := "├── ", "│   "
			if i == len(n.Children)-1 {
				branch, below = "└── ", "    "
			}
			line(indent + branch + c.line())
			walk(c, indent+below)
		}
	}
	walk(h.Root, "")
	return b.String()
}

func (n *Node) line() string {
	name := termtext.Line(n.Base())
	switch {
	case n.Skill() && n.named:
		name += " [skill] " + termtext.Line(n.Name)
	case n.Kind == Leaf:
		name += " [" + termtext.Line(n.Type) + "]"
	case n.Kind == Group:
		name += "/"
	}
	return about(name, n.Description)
}

func about(name, description string) string {
	if d := termtext.Line(description); d != "" {
		return name + ": " + d
	}
	return name
}
