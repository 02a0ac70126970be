package reference

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// verdict is the result of skills-ref for one skill of the corpus.
type verdict struct {
	Dir             string
	OK              bool
	Errors          []string
	Crash           string
	PropertiesError string `json:"properties_error"`
	Properties      map[string]any
}

// class removes the YAML library's own wording.
func class(messages []string) []string {
	out := []string{}
	for _, m := range messages {
		if strings.HasPrefix(m, "Invalid YAML in frontmatter: ") {
			m = "Invalid YAML in frontmatter"
		}
		out = append(out, m)
	}
	return out
}

// req: C-093
func TestEveryVerdictOnTheCorpusIsTheReferences(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	same, crashes := 0, 0
	for _, v := range testenv.Verdicts[verdict](t, dir) {
		s := At("", filepath.Join(dir, filepath.FromSlash(v.Dir)))
		got, err := s.Validate()
		if v.Crash != "" {
			crashes++
			if err == nil || !strings.Contains(err.Error(), "control character") {
				t.Errorf("%s crashes the reference; here %q, %v", v.Dir, got, err)
			}
			continue
		}
		if diff := cmp.Diff(class(v.Errors), class(got)); diff != "" || err != nil || v.OK != (len(got) == 0) {
			t.Errorf("%s: %v\n%s", v.Dir, err, diff)
			continue
		}
		if diff := cmp.Diff(wantProperties(v), gotProperties(t, s, v)); diff != "" {
			t.Errorf("%s: properties\n%s", v.Dir, diff)
			continue
		}
		same++
	}
	if same < 299 || crashes != 1 {
		t.Errorf("%d verdicts are the same, %d crash", same, crashes)
	}
}

func wantProperties(v verdict) map[string]any {
	want := map[string]any{}
	if v.PropertiesError != "" {
		message := v.PropertiesError
		if message == "=errors[0]" {
			message = v.Errors[0]
		}
		message, _, _ = strings.Cut(message, " in /")
		want["error"] = class([]string{message})[0]
		return want
	}
	for k, p := range v.Properties {
		if k == "metadata" && p == "" { // skills-ref has it, but does not print it
			continue
		}
		want[k] = p
	}
	return want
}

func gotProperties(t *testing.T, s Skill, v verdict) map[string]any {
	t.Helper()
	got := map[string]any{}
	p, err := s.Properties()
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), " in /")
		got["error"] = class([]string{message})[0]
		return got
	}
	if err := json.Unmarshal(p.JSON(), &got); err != nil {
		t.Fatalf("%s: %v", v.Dir, err)
	}
	delete(got, "description")
	h := sha256.Sum256([]byte(p.Description))
	got["description_sha256"] = hex.EncodeToString(h[:])
	got["description_chars"] = float64(utf8.RuneCountInString(p.Description))
	return got
}

func TestPromptOfTheCorpusIsTheReferences(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	b, err := os.ReadFile(filepath.Join(dir, "available_skills.xml"))
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "\n<location>\n/corpus/"
	var skills []Skill
	for part := range strings.SplitSeq(string(b), prefix) {
		if before, _, ok := strings.Cut(part, "/SKILL.md\n"); ok && len(part) < len(b) {
			skills = append(skills, At("", filepath.Join(dir, filepath.FromSlash(before))))
		}
	}
	if len(skills) != 234 {
		t.Fatalf("%d skills are listed", len(skills))
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Prompt(skills)
	if err != nil {
		t.Fatal(err)
	}
	got = strings.ReplaceAll(got, "\n<location>\n"+real+"/", prefix)
	if diff := cmp.Diff(strings.TrimSpace(string(b)), got); diff != "" {
		t.Error(diff)
	}
}
