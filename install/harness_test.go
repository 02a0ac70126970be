package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
)

// desk returns the files of a valid harness.
func desk() map[string]string {
	return map[string]string{
		"HARNESS.md":                 "---\nname: Sales Desk\ndescription: Answers questions about orders.\n---\nAnswer.\n",
		"skills/SKILLS.md":           "---\ndescription: What the desk can do.\n---\n",
		"skills/Query It/SKILL.md":   "---\nname: Query It\ndescription: Queries the orders.\n---\nQuery.\n",
		"skills/Query It/run.sh":     "#!/bin/sh\n",
		"references/REFERENCES.md":   "---\ndescription: What the desk can look up.\n---\n",
		"references/orders/table.md": "---\ndescription: The columns.\n---\n",
	}
}

func TestPrepare_InstallsHarnesses(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*testing.T, place) (install.Source, install.Options){
		"folder": func(_ *testing.T, p place) (install.Source, install.Options) {
			p.write(desk())
			return install.Source{Kind: install.Folder, Location: p.in}, install.Options{}
		},
		"archive": func(t *testing.T, p place) (install.Source, install.Options) {
			return p.archived("desk.zip", zipOf(t, desk())), install.Options{}
		},
		"git": func(t *testing.T, _ place) (install.Source, install.Options) {
			o := newOrigin(t)
			o.commit(desk())
			return o.source("", ""), install.Options{Env: o.env()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			src, o := source(t, p)
			o.Harnesses = true
			s := p.openWith(o)
			plan, err := p.prepare(s, install.Request{Source: src})
			apply(t, plan, err)
			for file, text := range desk() {
				if raw, err := os.ReadFile(filepath.Join(p.dir, "Sales-Desk", file)); string(raw) != text || err != nil {
					t.Errorf("%s is %q, %v", file, raw, err)
				}
			}
			if diff := cmp.Diff(map[string]install.State{"Sales-Desk": install.Intact}, p.states(s)); diff != "" {
				t.Errorf("the states (-want +got):\n%s", diff)
			}
			if err := os.RemoveAll(filepath.Join(p.dir, "Sales-Desk")); err != nil {
				t.Fatal(err)
			}
			plan, err = s.Restore(t.Context(), true, defaults(t))
			apply(t, plan, err)
			plan, err = s.Update(t.Context(), nil, false, defaults(t))
			apply(t, plan, err)
			if diff := cmp.Diff(map[string]install.State{"Sales-Desk": install.Intact}, p.states(s)); diff != "" {
				t.Errorf("the states after an update (-want +got):\n%s", diff)
			}
		})
	}
}

// req: D-036
func TestPrepare_RefusesABadHarnessWithAllProblems(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bad := desk()
	bad["skills/Query It/SKILL.md"] = "Query.\n"
	bad["skills/other/SKILL.md"] = "---\nname: other\n---\n"
	bad["references/orders/table.md"] = "No description.\n"
	p.write(bad)
	s := p.openWith(install.Options{Harnesses: true})
	_, err := p.prepare(s, install.Request{Source: install.Source{Kind: install.Folder, Location: p.in}})
	if metier.CodeOf(err) != "harness_invalid" {
		t.Fatalf("Prepare: %v, want harness_invalid", err)
	}
	for _, file := range []string{"skills/Query It/SKILL.md: ", "skills/other/SKILL.md: ", "references/orders/table.md: "} {
		if !strings.Contains(fmt.Sprint(err), "\n  - "+file) {
			t.Errorf("the error does not list %s:\n%v", file, err)
		}
	}
	p.empty()
}
