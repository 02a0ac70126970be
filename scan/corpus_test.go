package scan_test

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/internal/injection"
	"metier/internal/testenv"
	"metier/scan"
)

// hostile are the samples of the corpus that somebody made to attack, or to look like an attack, with
// the reason.
var hostile = map[string]string{
	"cisco-ai-defense+skill-scanner/evals/test_skills/malicious/ascii-smuggling": "an instruction in tag characters",
	"openclaw+skills/skills/c-goro/skillguard/test-fixtures/malicious-skill":     "an instruction to ignore instructions and to send keys",
	"openclaw+skills/skills/aslaep123/polymarket-traiding-bot":                   "a required program in an archive with a password",
	"openclaw+skills/skills/danman60/proxy-scrap":                                "an encoded command that runs a download from a numeric address",
	"openclaw+skills/skills/zaycv/linkedin-job-application":                      "an encoded command that runs a download from a numeric address",
	"openclaw+skills/skills/zaycv/polymarket-assistant":                          "an encoded command that runs a download from a numeric address",
	"openclaw+skills/skills/fobonacci404/evilcalc":                               "a command that runs in the background on a certain input",
}

// emptied are samples whose attack is in a script that the corpus leaves out. What is left is as
// harmless as their benign control, file-validator. Each value is the script.
var emptied = map[string]string{
	"cisco-ai-defense+skill-scanner/evals/skills/command-injection/eval-execution":      "calculate.py",
	"cisco-ai-defense+skill-scanner/evals/skills/data-exfiltration/environment-secrets": "get_info.py",
	"cisco-ai-defense+skill-scanner/evals/skills/obfuscation/base64-payload":            "process.py",
	"cisco-ai-defense+skill-scanner/evals/skills/sql-injection/database-query":          "query.py",
}

// counts are how many skills were flagged.
type counts struct{ hostile, flagged, benign, wrong, blocked int }

func TestCorpus_HostileSkillsAreFlagged(t *testing.T) {
	t.Parallel()
	root := testenv.Corpus(t)
	left := leftOut(t, root)
	var c counts
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(d.Name(), "SKILL.md") {
			return err
		}
		dir := filepath.Dir(p)
		rel, _ := filepath.Rel(root, dir)
		rel = filepath.ToSlash(rel)
		r, err := scan.Skill(t.Context(), os.DirFS(dir), nil)
		if err != nil {
			return err
		}
		script, empty := emptied[rel]
		switch flagged := r.Verdict != scan.Clean; {
		case empty && left[rel+"/"+script]: // there is nothing to find
		case empty || hostile[rel] != "":
			c.hostile++
			if flagged {
				c.flagged++
			} else {
				t.Errorf("%s is not flagged (%s)", rel, hostile[rel])
			}
		default:
			c.benign++
			if flagged {
				c.wrong++
				t.Logf("%s is %s: %s in %s:%d", rel, r.Verdict, r.Findings[0].Rule, r.Findings[0].File, r.Findings[0].Line)
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if injection.Orders(injection.Find(string(b))) {
				c.blocked++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v of 300", c)
	if c.hostile < len(hostile) || c.flagged != c.hostile || c.hostile+c.benign < 296 {
		t.Errorf("%+v: every hostile sample has to be found", c)
	}
	if c.wrong*50 > c.benign {
		t.Errorf("%d of %d harmless skills are flagged; at most 2 %% may be", c.wrong, c.benign)
	}
	if c.blocked*500 > c.benign {
		t.Errorf("%d of %d harmless skills are blocked from loading; at most 0.2 %% may be", c.blocked, c.benign)
	}
}

// leftOut returns the files that the corpus leaves out.
func leftOut(t *testing.T, root string) map[string]bool {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "manifest.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var m struct {
			Dir   string `json:"dir"`
			Files []struct {
				Path    string `json:"path"`
				LeftOut bool   `json:"left_out"`
			} `json:"files"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		for _, x := range m.Files {
			out[m.Dir+"/"+x.Path] = x.LeftOut
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// A skill of a security topic writes about attacks. It may not be flagged for that.
func TestCorpus_SecuritySkillsAreClean(t *testing.T) {
	t.Parallel()
	root := testenv.Corpus(t)
	for _, dir := range []string{
		"getsentry+skills/skills/gha-security-review",
		"openclaw+skills/skills/aviv4339/indirect-prompt-injection",
		"openclaw+skills/skills/seojoonkim/prompt-guard",
		"openclaw+skills/skills/oliveskin/agent-tinman",
	} {
		r, err := scan.Skill(t.Context(), os.DirFS(filepath.Join(root, filepath.FromSlash(dir))), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != scan.Clean || r.Coverage.Files == 0 {
			t.Errorf("%s is %s after %d files: %+v", dir, r.Verdict, r.Coverage.Files, r.Findings)
		}
	}
}
