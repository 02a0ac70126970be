package metier_test

import (
	"context"
	"strings"
	"testing"

	"metier"
	"metier/policy"
	texts "metier/source/stored"
)

// req: E-068
func TestRead_OfAStoredSkillWithoutFilesNeverReadsTheDisk(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"default", "project-skills"} {
		w := newFixture(t, profile, map[string]string{"disk/report/SKILL.md": skillFile("report", "From the disk."), "disk/report/references/a.md": "From the disk."})
		rows := texts.New(func(context.Context) ([]texts.Skill, error) {
			return []texts.Skill{{Path: "report", Text: skillFile("report", "From the rows.")}}, nil
		})
		w.roots = []metier.Mount{{Label: "rows", Tier: policy.Project, Source: rows}, w.mount("disk", policy.Project)}
		w.open()
		o, err := w.Read(t.Context(), "report", "SKILL.md", 0)
		if err != nil || !strings.Contains(o.Text(), "From the rows.") {
			t.Errorf("%s: SKILL.md is %q, %v", profile, o.Text(), err)
		}
		o, err = w.Read(t.Context(), "report", "references/a.md", 0)
		if err != nil || o.Code() != "skill_without_files" || !strings.Contains(o.Text(), "does not have files") || strings.Contains(o.Text(), "From the disk.") {
			t.Errorf("%s: the file is %q [%s], %v", profile, o.Text(), o.Code(), err)
		}
	}
}
