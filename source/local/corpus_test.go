package local_test

import (
	"slices"
	"testing"

	"metier"
	"metier/internal/testenv"
)

// notUsable are the skills of the corpus that have no frontmatter between two
// lines with a name and a description in it, or that are not loaded: the
// findings of each, the most important first. For those that are loaded anyway,
// it names what replaced the missing value.
var notUsable = map[string]string{
	"openclaw+skills/skills/bastos/obsidian-daily": "refused invalid-yaml", // a merge conflict
	"openclaw+skills/skills/limone-eth/molthunt":   "refused invalid-yaml", // its name is in a heading

	"openclaw+skills/skills/lucas-riverbi/morning-briefing": "refused unclosed-frontmatter", // truncated
	"openclaw+skills/skills/aatmaan1/communication-skill":   "refused unclosed-frontmatter",
	"openclaw+skills/skills/livvux/mcporter-skill":          "loaded closing-line-missing",

	"openclaw+skills/skills/abtdomain/nameserver-reverse":            "refused skill-file-name", // Skill.md
	"openclaw+skills/skills/krishna3554/echo-agent":                  "refused skill-file-name",
	"openclaw+skills/skills/nsampre/hevycli":                         "refused skill-file-name",
	"j4flmao+agent-skills/skills/frontend/nextjs/internals":          "loaded no-frontmatter",
	"openclaw+skills/skills/aslaep123/polymarket-traiding-bot":       "loaded no-frontmatter",
	"openclaw+skills/skills/aszelem/travel-agent":                    "loaded no-frontmatter",
	"openclaw+skills/skills/myboxstorage/brainstorming-studio":       "loaded no-frontmatter",
	"microsoft+waza/cmd/waza/tokens/testdata/check/legacy-json-only": "loaded no-frontmatter",
	"microsoft+waza/cmd/waza/tokens/testdata/check/some-exceed":      "loaded fenced-frontmatter",

	"EveryInc+compound-engineering-plugin/tests/fixtures/custom-paths/custom-skills/custom-skill": "loaded missing-description",
	"EveryInc+compound-engineering-plugin/tests/fixtures/custom-paths/skills/default-skill":       "loaded missing-description",
	"microsoft+waza/cmd/waza/dev/testdata/minimal":                                                "loaded missing-description",
	"openclaw+skills/skills/coyote-git/omnifocus-automation":                                      "hidden name-taken", // it names itself omnifocus, like another skill's folder
	"openclaw+skills/skills/gumadeiras/parcel-package-tracking":                                   "loaded missing-name",
	"openclaw+skills/skills/nonggialiang/verify-on-browser-1-0-0":                                 "loaded missing-name",
	"openclaw+skills/skills/thesethrose/therapy-mode":                                             "loaded missing-name",
	"secondsky+claude-skills/templates/skill-skeleton/skills/skill-name":                          "loaded field-type", // a list as the name
}

// Of the corpus' 300 skills 281 are usable. At least this many of those have to
// be loaded, or shadowed by one with the same name.
const (
	corpusSkills = 300
	corpusUsable = 280
	corpusLoaded = 276
)

func TestRealSkillsAreLoaded(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	usable := map[string]bool{} // the others have a finding above
	for _, v := range testenv.Verdicts[corpusVerdict](t, dir) {
		_, odd := notUsable[v.Dir]
		usable[v.Dir] = v.YAML.Frontmatter == "ok" && (!odd || notUsable[v.Dir] == "refused invalid-yaml")
	}
	count, loaded, all := 0, 0, 0
	for _, sk := range built(t, dir, defaults(t)).All() {
		fits, known := usable[sk.ID.Path]
		if !known {
			t.Errorf("%s is no skill of the corpus", sk.ID.Path)
			continue
		}
		all++
		if fits {
			count++
		}
		given := sk.State == metier.Loaded || sk.State == metier.Shadowed
		if fits && given && sk.Name != "" && sk.Description != "" {
			loaded++
			continue
		}
		if got := string(sk.State) + " " + firstFinding(sk); got != notUsable[sk.ID.Path] {
			t.Errorf("%s is %s, want %q", sk.ID.Path, got, notUsable[sk.ID.Path])
		}
	}
	if all != corpusSkills || len(usable) != corpusSkills || count != corpusUsable || loaded < corpusLoaded {
		t.Errorf("%d of %d skills are listed, %d are usable, %d of them loaded or shadowed; want %d, %d, at least %d",
			all, len(usable), count, loaded, corpusSkills, corpusUsable, corpusLoaded)
	}
	t.Logf("%d of %d usable skills are loaded or shadowed", loaded, count)
}

// firstFinding returns the code that best explains why a skill is not as it
// should be.
func firstFinding(sk metier.Skill) string {
	for _, d := range sk.Diagnostics {
		if d.Severity != "advice" && !slices.Contains([]string{"invalid-name", "name-directory-mismatch", "unexpected-field", "duplicate-skill-name"}, d.Code) {
			return d.Code
		}
	}
	return ""
}

type corpusVerdict struct {
	Dir  string
	YAML struct{ Frontmatter string } // ok, no-open, no-close
}
