package metier_test

import (
	"testing"

	"metier"
	"metier/policy"
)

// Rules that allow a skill also accept a name with a colon. A skill cannot be allowed by taking
// another one's ID as its name.
func TestOpen_AllowsNamesWithColon(t *testing.T) {
	t.Parallel()
	files := map[string]string{"skills/brand/SKILL.md": skillFile("ckm:brand", "Brand.\n"), "skills/other/SKILL.md": skillFile("other", "Other.\n"),
		"skills/real/SKILL.md": skillFile("real", "Real.\n"), "skills/fake/SKILL.md": skillFile("skills:real", "Fake.\n"), "skills/away/SKILL.md": skillFile("org:deploy", "Fake.\n")}
	for name, grant := range map[string]func(g *policy.Grants){
		"only": func(g *policy.Grants) { g.Only = [][]string{{"ckm:brand", "skills:real", "org:deploy"}} },
		"rules": func(g *policy.Grants) {
			g.Skills = []policy.SkillRule{{Effect: policy.RuleDeny, Skill: "*"}, {Effect: policy.RuleAllow, Skill: "ckm:brand"}, {Effect: policy.RuleAllow, Skill: "skills:real"}, {Effect: policy.RuleAllow, Skill: "org:deploy"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", files)
			w.config = func(c *metier.Config) { grant(&c.Grants) }
			w.open()
			mentions(t, w.works("load_skill", args{"name": "ckm:brand"}).Text(), "Brand.")
			mentions(t, w.works("load_skill", args{"name": "skills:real"}).Text(), "Real.")
			for _, refused := range []string{"other", "skills:fake", "org:deploy"} {
				if o := w.model("load_skill", args{"name": refused}); o.Code() == "" {
					t.Errorf("%s is loaded: %s", refused, o.Text())
				}
			}
		})
	}
}
