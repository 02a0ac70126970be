package install

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzParseIndex checks that no entry of an index that counts as usable can lead out of its folder or
// name a file of this machine.
func FuzzParseIndex(f *testing.F) {
	for _, s := range []string{
		`{"$schema":"` + discoverySchema + `","skills":[{"name":"pdf","type":"archive","url":"pdf.zip","digest":"sha256:` + strings.Repeat("a", 64) + `"}]}`,
		`{"$schema":"` + discoverySchema + `","skills":[{"name":"../pdf","type":"skill-md","url":"//evil/x","digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`,
		`{"skills":[{"name":"pdf","files":["SKILL.md","a/b c.md","../x"]}]}`,
		`{"skills":[{"name":"a:b","files":["SKILL.md"]}]}`,
		`{"$schema":null,"skills":null}`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	at, err := url.Parse("https://example.com/.well-known/agent-skills/index.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := parseIndex(raw, at)
		if err != nil {
			return
		}
		for _, e := range x.entries {
			if e.problem != "" {
				continue
			}
			if checkName(e.name) != nil || e.at == nil || e.at.Host == "" {
				t.Errorf("usable: %+v", e)
			}
			for _, file := range e.files {
				u := e.at.ResolveReference(&url.URL{Path: file})
				if u.Host != at.Host || !strings.HasPrefix(u.Path, "/.well-known/agent-skills/"+e.name+"/") {
					t.Errorf("%q leads to %s", file, u)
				}
			}
		}
	})
}
