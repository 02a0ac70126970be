package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const inspector = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// report is the Inspector's verdict on one skill.
type report struct {
	URI         string
	OK          bool
	Conformance []struct{ Severity, Code, Message string }
	Frontmatter []struct{ Severity, Code, Message string }
	Files       []struct{ URI, Status, Reason string }
}

// verify makes the Inspector fetch every listed skill of a server over a root,
// and returns its reports of skills that do not verify and the number that do.
func (b bench) verify(root string) (bad []string, good int) {
	b.t.Helper()
	out, err := b.node(inspector, "--cli", b.serve(b.metier, "mcp", "--skills-root", root, "--http", "127.0.0.1:0", "--watch", "0"), "--transport", "http", "--protocol-era", "modern",
		"--method", "skills/list", "--verify", "--require-digests", "--skill-catalog-max-skills", "100000", "--skill-catalog-max-bytes", "4000000000")
	for line := range strings.Lines(out) {
		var r report
		if json.Unmarshal([]byte(line), &r) != nil || r.Files == nil {
			continue
		}
		if r.OK {
			good++
			continue
		}
		bad = append(bad, line)
	}
	if good == 0 || err != nil && len(bad) == 0 {
		b.t.Fatalf("the Inspector verified %d skills: %v: %.2000s", good, err, out)
	}
	return bad, good
}

var verifiedSkills = regexp.MustCompile(`(?m)^skill .*`)

// hostVerifies makes our own host fetch and verify the same skills.
func (b bench) hostVerifies(root string) (bad []string, good int) {
	b.t.Helper()
	config := filepath.Join(b.t.TempDir(), "servers.json")
	text := fmt.Sprintf(`{"mcpServers": {"own": {"command": %q, "args": ["mcp", "--skills-root", %q, "--watch", "0"], "startTimeoutMs": 120000}}}`, b.metier, root)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	out, err := b.command(b.metier, "mcp", "inspect", "own", "--mcp-config", config, "--verify").CombinedOutput()
	for _, line := range verifiedSkills.FindAllString(string(out), -1) {
		if strings.Contains(line, ", verified,") {
			good++
		} else {
			bad = append(bad, line)
		}
	}
	if good == 0 || err != nil && len(bad) == 0 {
		b.t.Fatalf("our host verified %d skills: %v: %.2000s", good, err, out)
	}
	return bad, good
}

// generated writes skills and returns their root.
func generated(t *testing.T, seed uint64, n int) string {
	t.Helper()
	root, g := t.TempDir(), newGenerator(seed)
	for i := range n {
		name := "skill-" + strconv.Itoa(i)
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Join(dir, "references"), 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"SKILL.md": g.skill(name), "references/empty.md": "", "references/a file%20.md": "text\n"}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

const (
	generatedSkills = 10_000
	generatedSeed   = 1
)

func TestSkillsList_GeneratedSkillsVerify(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	n := generatedSkills
	if testing.Short() {
		n = 1000
	}
	verified(t, b, generated(t, generatedSeed, n), n/3)
}

func TestSkillsList_RealSkillsVerify(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "corpus"))
	if _, missing := os.Stat(root); err != nil || missing != nil {
		t.Fatalf("the corpus is missing: %v %v", err, missing)
	}
	verified(t, b, root, 200)
}

// verified fails for each listed skill of a root that the Inspector or our own
// host does not verify.
func verified(t *testing.T, b bench, root string, least int) {
	t.Helper()
	bad, good := b.verify(root)
	for _, line := range bad[:min(len(bad), 40)] {
		t.Errorf("the Inspector does not verify: %.600s", line)
	}
	badHost, goodHost := b.hostVerifies(root)
	for _, line := range badHost[:min(len(badHost), 40)] {
		t.Errorf("our host does not verify: %.600s", line)
	}
	t.Logf("the Inspector verified %d skills and our host %d; %d and %d failed", good, goodHost, len(bad), len(badHost))
	if good < least || goodHost != good {
		t.Errorf("the Inspector verified %d skills and our host %d, want equal numbers of at least %d", good, goodHost, least)
	}
}
