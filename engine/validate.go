package engine

import (
	"cmp"
	"context"

	"metier/policy"
	"metier/settings"
	"metier/skillmd/folder"
	"metier/skillroots"
)

// ValidateUnder validates the skill at a path, which may be relative to base, under the given
// settings. A skill is valid if it would be loaded.
func ValidateUnder(ctx context.Context, base, path string, s settings.Settings) folder.Verdict {
	dir, v := folder.At(base, path)
	if !v.OK {
		return v
	}
	mounts, err := skillroots.Mounts([]skillroots.Root{{Path: dir, Label: "validate", Tier: policy.Project, Named: true}}, s, nil)
	if err != nil {
		return v.Fail(folder.CodeUnreadable, err.Error())
	}
	snap, err := build(ctx, mounts, s)
	if err != nil {
		return v.Fail(folder.CodeUnreadable, err.Error())
	}
	for sk := range snap.Each() {
		if sk.ID.Path == "." {
			v.File, v.Name = cmp.Or(sk.Head.Location, v.File), sk.Head.Front.Name
			return v.Add(sk.Diagnostics...)
		}
	}
	return v.Fail(folder.CodeFileMissing, "there is no SKILL.md in this folder that the profile would read")
}
