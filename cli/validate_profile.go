package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"metier/engine"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/skillmd/reference"
	"metier/skillroots"
)

// judgeAsProfile gives the judge that loading skills under a profile has: the same one, with the profile's values alone.
func (a *app) judgeAsProfile(ctx context.Context, name string) (func(string) verdict, error) {
	layer, err := settings.Profile(name)
	if err != nil {
		return nil, profileHint(name, err)
	}
	layer.Operator = true
	s, _, err := settings.Resolve(layer)
	if err != nil {
		return nil, err
	}
	return func(p string) verdict { return a.judgeUnder(ctx, p, s) }, nil
}

func (a *app) judgeUnder(ctx context.Context, p string, s settings.Settings) verdict {
	at := reference.At(a.Dir, p)
	j := verdict{Path: at.Path, file: at.Path}
	fail := func(code, detail string) verdict {
		j.add(skillmd.Diagnostic{Severity: skillmd.Error, Code: code, Detail: detail})
		return j.done()
	}
	dir, err := at.Dir()
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		j.missing = true
		return fail(codePathMissing, "there is nothing at this path")
	case err != nil:
		return fail(codeUnreadable, err.Error())
	case !info.IsDir():
		return fail(codeNotFolder, "this is no folder and no SKILL.md")
	}
	mounts, err := skillroots.Mounts([]skillroots.Root{{Path: dir, Label: "validate", Tier: policy.Project, Named: true}}, s, nil)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	snap, err := engine.Build(ctx, mounts, s)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	for _, sk := range snap.All() {
		if sk.ID.Path == "." {
			j.file = cmp.Or(sk.Head.Location, j.file)
			j.name = sk.Head.Front.Name
			j.add(sk.Diagnostics...)
			return j.done()
		}
	}
	return fail(codeFileMissing, "there is no SKILL.md in this folder that the profile would read")
}
