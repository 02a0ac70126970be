package settings

import (
	"fmt"
	"strings"
)

// Markdown returns the page docs/SETTINGS.md: every setting, what its values mean, and its value in each profile.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Settings\n\n")
	b.WriteString("Written by `go test ./settings -update`; do not edit.\n\n")
	b.WriteString("Every behaviour on which the sources of metier disagree is a named value. Values are ordered, narrowest first. " +
		"The operator may choose any value; a `metier.yaml` in a workspace may only move to the narrow end, to a part of a set, " +
		"or to a smaller number (where 0 means \"all\", 0 is the largest). Settings marked *free* are cosmetic: any layer " +
		"may choose; nothing acts on those marked *later* yet, since what they decide is not built. A profile is a saved set of " +
		"values. `metier profile show` prints every value and who set it.\n")
	stage := ""
	for _, r := range Table() {
		if r.Stage != stage {
			stage = r.Stage
			fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(stage[:1]), stage[1:])
		}
		writeRow(&b, r)
	}
	writeMatrix(&b)
	return b.String()
}

func writeRow(b *strings.Builder, r Row) {
	mark := ""
	if r.Free {
		mark = " *free*"
	}
	if r.Later {
		mark += " *later*"
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s (%s%s; default `%s`)\n\n", r.Name, r.Doc, r.Shape, mark, r.Default)
	if r.Empty != "" {
		fmt.Fprintf(b, "- `%s`: the empty set\n", r.Empty)
	}
	for _, v := range r.Values {
		switch m := r.Meaning[v]; {
		case m != "":
			fmt.Fprintf(b, "- `%s`: %s\n", v, m)
		default:
			fmt.Fprintf(b, "- %s\n", v)
		}
	}
}

func writeMatrix(b *strings.Builder) {
	b.WriteString("\n## Profiles\n\n| setting |")
	for _, p := range Profiles() {
		fmt.Fprintf(b, " %s |", p)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Profiles())) + "\n")
	for _, r := range rows() {
		fmt.Fprintf(b, "| `%s` |", r.Name)
		for _, p := range Profiles() {
			fmt.Fprintf(b, " %s |", mustProfile(p).Values[r.Name])
		}
		b.WriteString("\n")
	}
}
