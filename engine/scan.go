package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/confusable"
	"metier/internal/rootfile"
	"metier/scan"
	"metier/skillmd"
)

// Scanned is the report about one skill.
type Scanned struct {
	Path string `json:"path"` // of its folder, as it was given, with the path below it
	scan.Report
}

// Scan scans the skill at a path, which may be relative to base: a skill's folder, its SKILL.md, or a
// folder that contains skills, or links to them. It returns the reports in the order of the paths.
// Nothing is executed, and no network is used.
func Scan(ctx context.Context, base, path string) ([]Scanned, error) {
	dir := path
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(base, dir)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &metier.Error{Op: "scan", Path: path, Kind: metier.NotFound, Code: "path_missing", Hint: "specify a folder that contains a SKILL.md", Err: fs.ErrNotExist}
	case err == nil && !info.IsDir() && strings.EqualFold(filepath.Base(dir), "SKILL.md"):
		dir, path = filepath.Dir(dir), filepath.Dir(path)
	case err == nil && !info.IsDir():
		return nil, &metier.Error{Op: "scan", Path: path, Kind: metier.Invalid, Code: "usage", Hint: "specify the skill's folder", Err: errors.New("neither a folder nor a SKILL.md")}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unscanned(path, err)
	}
	defer root.Close()
	folders, links, err := scan.Folders(ctx, root.FS())
	if err != nil {
		return nil, unscanned(path, err)
	}
	linked := skillLinks(dir, links)
	if len(folders)+len(linked) == 0 {
		return nil, &metier.Error{Op: "scan", Path: path, Kind: metier.NotFound, Code: "skill_not_found", Hint: "specify a folder that contains a SKILL.md", Err: errors.New("it contains no SKILL.md")}
	}
	names := namesIn(root, folders)
	var all confusable.Names
	all.Add(names...)
	var out []Scanned
	for i, f := range folders {
		files, err := fs.Sub(root.FS(), f)
		if err != nil {
			return nil, unscanned(path, err)
		}
		r, err := scan.Skill(ctx, files, &scan.Options{Names: all.Like(names[i])})
		if err != nil {
			return nil, unscanned(path, err)
		}
		out = append(out, Scanned{filepath.Join(path, filepath.FromSlash(f)), r})
	}
	for _, l := range linked {
		r, err := scanLinked(ctx, filepath.Join(dir, l))
		if err != nil {
			return nil, unscanned(filepath.Join(path, l), err)
		}
		out = append(out, Scanned{filepath.Join(path, l), r})
	}
	slices.SortStableFunc(out, func(a, b Scanned) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// skillLinks returns the links that lead to the folder of a skill: a skill is loaded through them as
// well.
func skillLinks(dir string, links []string) (out []string) {
	for _, l := range links {
		l = filepath.FromSlash(l)
		for _, name := range []string{"SKILL.md", "skill.md"} {
			if _, err := os.Stat(filepath.Join(dir, l, name)); err == nil {
				out = append(out, l)
				break
			}
		}
	}
	return out
}

func scanLinked(ctx context.Context, dir string) (scan.Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return scan.Report{}, err
	}
	defer root.Close()
	return scan.Skill(ctx, root.FS(), nil)
}

func unscanned(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &metier.Error{Op: "scan", Path: path, Kind: metier.Unavailable, Code: "skill_unreadable", Hint: "check the folder and its permissions", Err: err}
}

// namesIn returns the names of the skills in folders, or "" for those without one.
func namesIn(root *os.Root, folders []string) []string {
	out := make([]string, len(folders))
	for i, f := range folders {
		for _, name := range []string{"SKILL.md", "skill.md"} {
			if b, err := rootfile.Read(root, filepath.Join(filepath.FromSlash(f), name), 4<<20); err == nil {
				doc, _ := skillmd.Parse(b)
				out[i] = doc.Front.Name
				break
			}
		}
	}
	return out
}
