package run

import (
	"bytes"
	"encoding/json"
	"sync"
	"weak"

	"metier/registry"
)

// index is a registry parsed from its content. Runs with the same skills have the same content, and
// their projections share the index while any of them is in progress. Parsing a thousand skills
// takes longer than everything else. An index is immutable.
type index struct {
	list   Registry // without the run and the time
	skills map[string]registry.Skill
	place  map[string]int    // of each ID in list.Skills
	severe []json.RawMessage // findings that matter for trust
	print  func() ([]byte, error)
}

// indexes holds the indexes in use, by the digest of their content.
var indexes = struct {
	sync.Mutex
	known map[string]weak.Pointer[index]
}{known: map[string]weak.Pointer[index]{}}

// mostIndexes is how many digests are cached.
const mostIndexes = 64

// knownIndex returns the index of the content with this digest, or nil if none is in use.
func knownIndex(digest string) *index {
	indexes.Lock()
	defer indexes.Unlock()
	return indexes.known[digest].Value()
}

// indexOf returns the index of the content with this digest.
func indexOf(digest string, content []byte) (*index, error) {
	indexes.Lock() // also while it reads: others want the same
	defer indexes.Unlock()
	if x := indexes.known[digest].Value(); x != nil {
		return x, nil
	}
	x, err := readIndex(content)
	if err != nil {
		return nil, err
	}
	if len(indexes.known) >= mostIndexes {
		clear(indexes.known)
	}
	indexes.known[digest] = weak.Make(x)
	return x, nil
}

func readIndex(content []byte) (*index, error) {
	x := &index{list: emptyRegistry()}
	if err := json.Unmarshal(plain(content), &x.list); err != nil {
		return nil, badIndex(err)
	}
	list, err := x.list.List()
	if err != nil {
		return nil, err
	}
	x.skills, x.place = registry.List{Skills: list}.ByID(), make(map[string]int, len(list))
	for i, s := range list {
		x.place[s.ID] = i
	}
	if x.severe, err = x.list.severe(); err != nil {
		return nil, err
	}
	x.print = sync.OnceValues(func() ([]byte, error) {
		b, err := printed(rest{x.list.SkillsRoot, x.list.SandboxSkillsRoot, x.list.Roots, x.list.Skills, x.list.Diagnostics, x.list.Others})
		return bytes.TrimPrefix(b, []byte("{\n")), err
	})
	return x, nil
}

func emptyRegistry() Registry {
	return Registry{Skills: []json.RawMessage{}, Diagnostics: []json.RawMessage{}, Roots: json.RawMessage("[]"), Others: json.RawMessage("[]")}
}

// head has the members of a Registry that differ between runs. rest has the others.
type (
	head struct {
		Type        string `json:"type"`
		Version     int    `json:"version"`
		RunID       string `json:"runId"`
		GeneratedAt string `json:"generatedAt"`
	}
	rest struct {
		SkillsRoot        string            `json:"skillsRoot"`
		SandboxSkillsRoot string            `json:"sandboxSkillsRoot"`
		Roots             json.RawMessage   `json:"roots"`
		Skills            []json.RawMessage `json:"skills"`
		Diagnostics       []json.RawMessage `json:"diagnostics"`
		Others            json.RawMessage   `json:"others"`
	}
)

// printed formats the registry of a run with this index, like the function printed. The last piece
// belongs to the index.
func (x *index) printed(r Registry) (pieces, error) {
	b, err := printed(head{r.Type, r.Version, r.RunID, r.GeneratedAt})
	if err != nil {
		return nil, err
	}
	tail, err := x.print()
	return pieces{bytes.TrimSuffix(b, []byte("\n}\n")), []byte(",\n"), tail}, err
}

// severe lists the errors and warnings of the registry, followed by those of its skills.
func (r Registry) severe() (out []json.RawMessage, err error) {
	add := func(list []json.RawMessage) {
		for _, d := range list {
			var s struct{ Severity string }
			if json.Unmarshal(d, &s) == nil && s.Severity != "advice" {
				out = append(out, d)
			}
		}
	}
	add(r.Diagnostics)
	for _, raw := range r.Skills {
		var s struct {
			Diagnostics []json.RawMessage `json:"diagnostics"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, badIndex(err)
		}
		add(s.Diagnostics)
	}
	return out, nil
}
