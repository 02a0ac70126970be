package scan

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	maxFolders = 100_000 // that are searched for skills
	maxSkills  = 10_000
)

// Folders returns the folders that have a SKILL.md, in any case, including those inside other skills.
// It follows no links; links lists those that are not files of a skill by name, which can lead to more
// skills. Both are sorted. It returns an error if there are too many folders, so that none is left out
// silently.
func Folders(ctx context.Context, files fs.FS) (out, links []string, err error) {
	seen := 0
	err = fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			if seen++; seen > maxFolders {
				return fmt.Errorf("more than %d folders", maxFolders)
			}
		case strings.EqualFold(d.Name(), "SKILL.md"):
			if dir := path.Dir(p); len(out) == 0 || out[len(out)-1] != dir {
				out = append(out, dir)
			}
			if len(out) > maxSkills {
				return fmt.Errorf("more than %d skills", maxSkills)
			}
		case d.Type()&fs.ModeSymlink != 0:
			if links = append(links, p); len(links) > maxSkills {
				return fmt.Errorf("more than %d links", maxSkills)
			}
		}
		return nil
	})
	slices.Sort(out)
	slices.Sort(links)
	return slices.Compact(out), links, err
}
