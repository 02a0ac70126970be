package host

import (
	"context"
	"errors"
	"iter"

	"metier"
	"metier/policy"
	"metier/skillmd"
)

// MountLabel returns the label of a server's skills among the roots.
func MountLabel(server string) string { return "mcp:" + server }

// Mount returns the mount of a server's skills. They are always third_party, and their names are in a
// space of their own.
func Mount(server string, src *Source) metier.Mount {
	l := MountLabel(server)
	return metier.Mount{Label: l, Space: l, Kind: "mcp", Tier: policy.ThirdParty, Source: src}
}

// Mounts returns the mounts of the servers that have skills or something to report.
func (h *Host) Mounts() []metier.Mount {
	var out []metier.Mount
	for _, l := range h.Labels() {
		m := metier.Mount{Label: MountLabel(l), Kind: "mcp", Tier: policy.ThirdParty, Source: noSkills{}}
		src := h.Source(l)
		if src != nil {
			m = Mount(l, src)
		}
		for _, n := range h.Notes() {
			if n.Path == m.Label {
				m.Notes = append(m.Notes, n)
			}
		}
		if src != nil || len(m.Notes) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// noSkills is the source of a server that is only reported on.
type noSkills struct{}

func (noSkills) List(context.Context) iter.Seq2[*metier.Head, error] {
	return func(func(*metier.Head, error) bool) {}
}

func (noSkills) Open(_ context.Context, path string) (metier.Bundle, error) {
	return nil, &metier.Error{Op: "open", Skill: path, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("this server provides no skills")}
}

// Why returns the server's diagnostic for every path.
func (noSkills) Why(string) metier.Diagnostic {
	return metier.Diagnostic{Severity: skillmd.Warning, Code: "mcp-no-skills", Detail: "this server provides no skills"}
}
