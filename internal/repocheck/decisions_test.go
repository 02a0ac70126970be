package repocheck

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// requirement is a module in a go.mod's require directive.
var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+\.\S+) v\S+`)

// Decisions finds modules that the code imports, or that the checks run as
// tools, without a page in docs/decisions that names the module in backquotes
// and explains why it was chosen.
func (t *Tree) Decisions() []Finding {
	var pages strings.Builder
	for _, p := range t.Paths {
		if path.Dir(p) == "docs/decisions" {
			pages.Write(t.data[p])
		}
	}
	var out []Finding
	for _, mod := range []string{"go.mod", "tools/go.mod"} {
		var direct []string
		for _, m := range requirement.FindAllStringSubmatch(string(t.data[mod]), -1) {
			if name := m[1]; t.imported(name) || strings.Contains(string(t.data[mod]), "\ntool "+name+"/") {
				direct = append(direct, name)
			}
		}
		slices.Sort(direct)
		for _, name := range direct {
			if !strings.Contains(pages.String(), "`"+name+"`") {
				out = append(out, Finding{mod, 0, name + " has no page in docs/decisions: need, pick, alternatives, cost"})
			}
		}
	}
	return out
}

// imported reports whether a Go file of the module imports something of a
// module.
func (t *Tree) imported(module string) bool {
	for _, f := range t.files {
		for _, im := range f.Imports {
			p := strings.Trim(im.Path.Value, `"`)
			if p == module || strings.HasPrefix(p, module+"/") {
				return true
			}
		}
	}
	return false
}
