package exectool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"metier"
	"metier/internal/digest"
	"metier/sandbox"
)

// stagedAt returns the folder of a skill's staged files.
func stagedAt(sk metier.Skill) string { return path.Join(sandbox.SkillsDir, sk.Slug) }

// stage reads all files of a skill and compares each with the index. The result is the tree that
// its scripts run from: the bytes that run are the ones that were hashed. total is how much of
// treeMax other skills of the same job use.
func (r *runner) stage(ctx context.Context, s *metier.Session, sk metier.Skill, total int64) (sandbox.Tree, error) {
	t := sandbox.Tree{Path: stagedAt(sk)}
	files := slices.Clone(sk.Resources)
	if name := sk.Head.FileName; name != "" && !slices.ContainsFunc(files, func(f metier.Resource) bool { return f.Path == name }) {
		files = append(files, metier.Resource{File: metier.File{Path: name, Digest: sk.Digest, Size: -1}})
	}
	size := int64(0)
	for _, f := range files {
		size += max(f.Size, 0)
	}
	if total += size; total > treeMax {
		return t, &metier.Error{Op: "stage", Skill: sk.Name, Kind: metier.LimitReached, Code: "skill_too_large", Err: fmt.Errorf("its files have %d bytes, at most %d can be staged", size, treeMax)}
	}
	b, err := s.Snapshot().Open(ctx, sk.ID)
	if err != nil {
		return t, err
	}
	defer b.Close()
	for _, f := range files {
		data, err := verified(ctx, b, sk, f)
		if err != nil {
			return t, err
		}
		t.Files = append(t.Files, sandbox.File{Path: f.Path, Exec: f.Exec, Data: data})
	}
	return t, nil
}

// skillMax is the maximum size of a SKILL.md whose size is not in the index.
const skillMax = 4 << 20

var scriptCodes = metier.FileCodes{Missing: "script_not_found", Outside: "script_outside_root", Irregular: "script_not_file"}

// verified reads one file of a skill completely and compares it with the index. A negative size is
// not compared.
func verified(ctx context.Context, b metier.Bundle, sk metier.Skill, f metier.Resource) ([]byte, error) {
	file, err := b.Open(ctx, f.Path)
	if err != nil {
		return nil, scriptCodes.Error("run", sk.Name, f.Path, err)
	}
	defer file.Close()
	most := f.Size
	if most < 0 {
		most = skillMax
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, scriptCodes.Error("run", sk.Name, f.Path, err)
	}
	if f.Size >= 0 && int64(len(data)) != f.Size || metier.Digest(digest.Bytes(data)) != f.Digest {
		return nil, &metier.Error{Op: "run", Skill: sk.Name, Path: f.Path, Kind: metier.Drift, Code: "script_snapshot_mismatch", Err: errors.New("the file is not the one that was indexed; nothing ran")}
	}
	return data, nil
}
