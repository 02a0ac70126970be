package scan_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier/scan"
)

func TestSkill_ListsHosts(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"SKILL.md":      {Data: []byte("---\nname: a\ndescription: Docs at https://Docs.example.com/a.\n---\nSee [this](https://www.example.com/x_(y)) and <http://user:pass@b.example.net:8080/p>, http://localhost:3000 or https://10.0.0.1/x.\n")},
		"scripts/go.py": {Data: []byte("requests.get(f\"https://{host}/x\")\nu = 'wss://c.example.org'\n# ssh://git@git.example.org/x.git https://docs.example.com\n")},
		"data.bin":      {Data: []byte("\x00https://hidden.example.com")},
	}
	r, err := scan.Skill(t.Context(), files, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b.example.net", "c.example.org", "docs.example.com", "git.example.org", "www.example.com"}, r.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func TestSkill_LimitsHosts(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 250 {
		fmt.Fprintf(&b, "https://h%d.example.com\n", i)
	}
	r, err := scan.Text(t.Context(), "SKILL.md", b.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{200, 50}, []int{len(r.Hosts), r.UnlistedHosts}); diff != "" {
		t.Errorf("hosts, and those left out (-want +got):\n%s", diff)
	}
}
