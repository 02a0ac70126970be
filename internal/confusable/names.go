package confusable

// Names are names by their appearance. The zero value is ready to use.
type Names struct{ bySkeleton map[string][]string }

// Add adds names.
func (n *Names) Add(names ...string) {
	if n.bySkeleton == nil {
		n.bySkeleton = map[string][]string{}
	}
	for _, name := range names {
		shape := Skeleton(name)
		n.bySkeleton[shape] = append(n.bySkeleton[shape], name)
	}
}

// Like returns the names that look like a name, which can be among them, in the order in which they were
// added.
func (n *Names) Like(name string) []string { return n.bySkeleton[Skeleton(name)] }
