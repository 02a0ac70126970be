package skillmd

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// verdict is one line of the corpus' verdicts.jsonl: the results of the reference validator and
// other parsers for a skill.
type verdict struct {
	Dir        string
	File       string
	BodySHA256 string `json:"body_sha256"`
	OK         bool
	YAML       struct {
		Frontmatter string // ok, no-open, no-close
		V3          bool   `json:"go.yaml.in/v3"`
	}
	Properties *struct {
		Name              string
		DescriptionChars  int    `json:"description_chars"`
		DescriptionSHA256 string `json:"description_sha256"`
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Of the corpus' 300 skills 281 are usable: they have frontmatter between two lines with a name and
// a description in it. At least this many of those must return both.
const (
	usable   = 281
	loadable = 276
)

// The results for skills that do not simply have name and description.
const (
	noName        = "no name"
	noDescription = "no description"
)

// odd lists them: the code of the repair or of the refusal, or what is missing without a finding.
var odd = map[string]string{
	"affaan-m+everything-claude-code/docs/ja-JP/skills/swiftui-patterns":                             CodeUnquotedIndicator,
	"affaan-m+everything-claude-code/docs/zh-CN/skills/laravel-verification":                         CodeUnquotedColon,
	"openclaw+skills/skills/acastellana/skill-publisher-claw-skill":                                  CodeUnquotedColon,
	"openclaw+skills/skills/vishnubedi3/plan-executor":                                               CodeUnquotedColon,
	"openclaw+skills/skills/baofeidyz/feishu-leave-request":                                          CodeTextAfterFlow,
	"openclaw+skills/skills/peetzweg/trmnl-display":                                                  CodeTextAfterFlow,
	"openclaw+skills/skills/hhhh124hhhh/a-beginner-s-guide-to-chatgpt-prompt-engineering-d-558bdbec": CodeUnquotedIndicator,
	"openclaw+skills/skills/hhhh124hhhh/harpa-ai-crafting-exceptional-prompts-for-midjourn-05e5faa9": CodeUnquotedIndicator,
	"openclaw+skills/skills/fobonacci404/evilcalc":                                                   CodeUnreadableField,
	"openclaw+skills/skills/mitchellbernstein/factory-ai":                                            CodeUnreadableField,
	"openclaw+skills/skills/mitchellbernstein/google-home":                                           CodeUnreadableField,
	"openclaw+skills/skills/zaycv/novafon":                                                           CodeUnreadableField,
	"microsoft+waza/cmd/waza/tokens/testdata/check/some-exceed":                                      CodeFencedFrontmatter,
	"openclaw+skills/skills/livvux/mcporter-skill":                                                   CodeClosingLineMissing,
	"openclaw+skills/skills/lucas-riverbi/morning-briefing":                                          CodeUnclosedFrontmatter, // truncated

	"openclaw+skills/skills/bastos/obsidian-daily":                   CodeInvalidYAML, // a merge conflict
	"openclaw+skills/skills/limone-eth/molthunt":                     CodeInvalidYAML, // the name is in a heading
	"openclaw+skills/skills/aatmaan1/communication-skill":            CodeUnclosedFrontmatter,
	"j4flmao+agent-skills/skills/frontend/nextjs/internals":          CodeNoFrontmatter,
	"openclaw+skills/skills/abtdomain/nameserver-reverse":            CodeNoFrontmatter,
	"openclaw+skills/skills/aslaep123/polymarket-traiding-bot":       CodeNoFrontmatter,
	"openclaw+skills/skills/aszelem/travel-agent":                    CodeNoFrontmatter,
	"openclaw+skills/skills/krishna3554/echo-agent":                  CodeNoFrontmatter,
	"openclaw+skills/skills/myboxstorage/brainstorming-studio":       CodeNoFrontmatter,
	"openclaw+skills/skills/nsampre/hevycli":                         CodeNoFrontmatter,
	"microsoft+waza/cmd/waza/tokens/testdata/check/legacy-json-only": CodeNoFrontmatter,

	"EveryInc+compound-engineering-plugin/tests/fixtures/custom-paths/custom-skills/custom-skill": noDescription,
	"EveryInc+compound-engineering-plugin/tests/fixtures/custom-paths/skills/default-skill":       noDescription,
	"microsoft+waza/cmd/waza/dev/testdata/minimal":                                                noDescription,
	"openclaw+skills/skills/gumadeiras/parcel-package-tracking":                                   noName,
	"openclaw+skills/skills/nonggialiang/verify-on-browser-1-0-0":                                 noName,
	"openclaw+skills/skills/thesethrose/therapy-mode":                                             noName,
	"secondsky+claude-skills/templates/skill-skeleton/skills/skill-name":                          CodeFieldType, // a list as the name
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	all := testenv.Verdicts[verdict](t, dir)
	both, given, fit := 0, 0, 0
	for _, v := range all {
		src := readSkill(t, filepath.Join(dir, filepath.FromSlash(v.Dir)), v)
		checkWhole(t, src)
		d, diags := Parse(src)
		want, isOdd := odd[v.Dir]
		if got := oddness(d, diags); got != want {
			t.Errorf("%s: %q, want %q: %v", v.Dir, got, want, diags)
		}
		fits := v.YAML.Frontmatter == "ok" && want != noName && want != noDescription && want != CodeFieldType
		if d.Front.HasName && d.Front.HasDescription {
			both++
			if fits {
				given++
			}
		} else if !isOdd {
			t.Errorf("%s: no finding says why it gives no name and description", v.Dir)
		}
		if fits {
			fit++
		}
		checkVerdict(t, v, d, diags)
	}
	if fit != usable || given < loadable {
		t.Errorf("%d of %d usable skills have name and description, want %d of %d", given, fit, loadable, usable)
	}
	t.Logf("%d of %d skills have name and description; %d of %d usable ones", both, len(all), given, fit)
}

// oddness returns the first repair or refusal, or what is missing.
func oddness(d Document, diags []Diagnostic) string {
	for _, g := range diags {
		if g.Repair() || g.Severity == Error || g.Code == CodeNoFrontmatter {
			return g.Code
		}
	}
	for _, g := range diags {
		if !d.Front.HasName && g.Code == CodeFieldType {
			return g.Code
		}
	}
	switch {
	case !d.Front.HasName:
		return noName
	case !d.Front.HasDescription:
		return noDescription
	}
	return ""
}

// readSkill finds SKILL.md in any letter case; the reference validator knows only two spellings.
func readSkill(t testing.TB, dir string, v verdict) []byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if v.File != "" && e.Name() != v.File || !strings.EqualFold(e.Name(), "skill.md") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Fatalf("%s: no SKILL.md", dir)
	return nil
}

// checkVerdict compares with the results of other parsers for the same file.
func checkVerdict(t *testing.T, v verdict, d Document, diags []Diagnostic) {
	t.Helper()
	code, repaired := "", false
	for _, g := range diags {
		repaired = repaired || g.Repair()
		if code == "" && (g.Severity == Error || g.Code == CodeNoFrontmatter) {
			code = g.Code
		}
	}
	switch {
	case v.YAML.Frontmatter == "no-open" && code != CodeNoFrontmatter && !repaired,
		v.YAML.Frontmatter == "no-close" && code != CodeUnclosedFrontmatter && !repaired,
		v.YAML.V3 && (code != "" || repaired):
		t.Errorf("%s: frontmatter %s, accepted elsewhere %v, but here %v", v.Dir, v.YAML.Frontmatter, v.YAML.V3, diags)
	}
	if v.YAML.Frontmatter != "ok" {
		return
	}
	if p := v.Properties; p != nil {
		type props struct {
			Name, Description string
			Chars             int
		}
		want := props{p.Name, p.DescriptionSHA256, p.DescriptionChars}
		got := props{d.Front.Name, sum([]byte(d.Front.Description)), utf8.RuneCountInString(d.Front.Description)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", v.Dir, diff)
		}
	}
	if v.OK { // the reference reads CRLF as LF and strips the body
		body := strings.TrimSpace(strings.ReplaceAll(string(d.Body), "\r\n", "\n"))
		if sum([]byte(body)) != v.BodySHA256 {
			t.Errorf("%s: another body than the reference's", v.Dir)
		}
	}
}
