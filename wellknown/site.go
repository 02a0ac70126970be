package wellknown

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"metier"
	"metier/internal/archive"
	"metier/internal/digest"
	"metier/internal/skillname"
	"metier/signature"
)

// Schema identifies version 0.2.0 of the format of indexes.
const Schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// Folders of a site.
const (
	newFolder = ".well-known/agent-skills" // version 0.2.0
	oldFolder = ".well-known/skills"       // version 0.1
)

// maxDescription is the length of a description, in characters, above which clients reject an entry.
const maxDescription = 1024

// Types of published skills.
const (
	TypeArchive = "archive"  // a zip with SKILL.md at its top
	TypeSkillMD = "skill-md" // SKILL.md alone
)

// Skill is a published skill, as the index lists it.
type Skill struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	URL         string `json:"url"`    // relative to the index
	Digest      string `json:"digest"` // of the bytes at URL
}

// Omitted is a skill that is not published.
type Omitted struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Site is the skills and files of a site.
type Site struct {
	Skills  []Skill   // by name
	Omitted []Omitted // by name
	root    *os.Root
	files   map[string]file // by path, without the first slash
	ids     map[metier.ID]bool
}

// file is a file of a site.
type file struct{ digest, media string }

// oldSkill is an entry of an index of version 0.1.
type oldSkill struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Files       []string `json:"files"`
}

// Build writes the files of a site with these skills into a folder, which must not contain a site. A
// skill that clients would reject, or that cannot be read completely, is omitted. The folder must stay
// open while the site is served.
func Build(ctx context.Context, snap *metier.Snapshot, skills []metier.Skill, into *os.Root) (*Site, error) {
	s := &Site{Skills: []Skill{}, Omitted: []Omitted{}, root: into, files: map[string]file{}, ids: map[metier.ID]bool{}}
	for _, dir := range []string{newFolder, oldFolder} {
		if _, err := into.Lstat(filepath.FromSlash(dir)); err == nil {
			return nil, &metier.Error{Op: "publish", Path: filepath.Join(into.Name(), dir), Kind: metier.Conflict, Code: "site_exists", Hint: "remove it, or use another folder", Err: errors.New("the folder contains a site")}
		}
		if err := into.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return nil, err
		}
	}
	old := []oldSkill{}
	for _, sk := range slices.SortedFunc(slices.Values(skills), func(a, b metier.Skill) int { return cmp.Compare(a.Name, b.Name) }) {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		o, err := s.publish(ctx, snap, sk)
		if err != nil {
			u, ok := errors.AsType[unpublishable](err)
			if !ok || ctx.Err() != nil {
				return nil, err
			}
			s.Omitted = append(s.Omitted, Omitted{sk.Name, u.Error()})
			continue
		}
		old, s.ids[sk.ID] = append(old, o), true
	}
	err := s.put(newFolder+"/index.json", struct {
		Schema string  `json:"$schema"`
		Skills []Skill `json:"skills"`
	}{Schema, s.Skills})
	return s, errors.Join(err, s.put(oldFolder+"/index.json", map[string][]oldSkill{"skills": old}))
}

// unpublishable is an error about one skill. Others are about the folder of the site.
type unpublishable struct{ error }

func (u unpublishable) Unwrap() error { return u.error }

func unfit(format string, args ...any) error { return unpublishable{fmt.Errorf(format, args...)} }

// rejected returns why clients would reject a skill, or nil.
func (s *Site) rejected(sk metier.Skill) error {
	bad := skillname.Problems(sk.Name, false, true)
	switch {
	case len(bad) > 0:
		return unfit("%s", bad[0][1])
	case strings.TrimSpace(sk.Description) == "":
		return unfit("it has no description")
	case utf8.RuneCountInString(sk.Description) > maxDescription:
		return unfit("its description has more than %d characters", maxDescription)
	case slices.ContainsFunc(s.Skills, func(x Skill) bool { return x.Name == sk.Name }):
		return unfit("another skill has this name")
	}
	return nil
}

// publish writes the files of a skill, and adds it to the site.
func (s *Site) publish(ctx context.Context, snap *metier.Snapshot, sk metier.Skill) (oldSkill, error) {
	none := oldSkill{}
	if err := s.rejected(sk); err != nil {
		return none, err
	}
	dir := path.Join(oldFolder, sk.Name)
	added, err := s.copyFiles(ctx, snap, sk, dir)
	out := Skill{Name: sk.Name, Type: TypeArchive, Description: sk.Description, URL: sk.Name + ".zip"}
	if err == nil && len(added) == 1 {
		out.Type, out.URL = TypeSkillMD, sk.Name+"/SKILL.md"
		err = s.pack(newFolder+"/"+out.URL, func(w io.Writer) error {
			in, err := s.root.Open(filepath.FromSlash(dir + "/SKILL.md"))
			if err != nil {
				return err
			}
			_, err = io.Copy(w, in)
			return errors.Join(err, in.Close())
		})
	} else if err == nil {
		err = s.pack(newFolder+"/"+out.URL, func(w io.Writer) error { return archive.Write(ctx, w, archive.Zip, added) })
		if code := archive.CodeOf(err); code != "" && code != archive.CodeIO {
			err = unpublishable{err}
		}
	}
	if err != nil {
		for p := range s.files {
			if strings.HasPrefix(p, dir+"/") {
				delete(s.files, p)
			}
		}
		delete(s.files, newFolder+"/"+out.URL)
		return none, errors.Join(err, s.root.RemoveAll(filepath.FromSlash(dir)), s.root.RemoveAll(filepath.FromSlash(newFolder+"/"+out.URL)))
	}
	out.Digest = s.files[newFolder+"/"+out.URL].digest
	s.Skills = append(s.Skills, out)
	old := oldSkill{sk.Name, sk.Description, nil}
	for _, f := range added {
		old.Files = append(old.Files, f.Path)
	}
	return old, nil
}

// fileName returns the name that a file of a skill has in the site.
func fileName(f metier.File, sk metier.Skill) string {
	if f.Path == sk.Head.FileName {
		return "SKILL.md"
	}
	return f.Path
}

// checkSignatures reports a signature that is not about the files as clients get them.
func checkSignatures(ctx context.Context, b metier.Bundle, m metier.Manifest, sk metier.Skill) error {
	sub := signature.Subject{Name: sk.Name, Read: func(path string) ([]byte, error) {
		in, err := b.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(in, signature.MaxBytes))
		return raw, errors.Join(err, in.Close())
	}}
	for _, f := range m.Files {
		sub.Files = append(sub.Files, signature.File{Path: fileName(f, sk), Digest: string(f.Digest), Size: f.Size, Executable: f.Exec})
	}
	_, err := signature.Trust{}.Check(sub)
	if bad, ok := errors.AsType[*signature.BadError](err); ok {
		return unfit("its signature is not valid: %v", bad)
	}
	if err != nil {
		return unpublishable{err}
	}
	return nil
}

// copyFiles copies the files of a skill into a folder of the site, and returns them as files of an
// archive. Its SKILL.md always gets this name.
func (s *Site) copyFiles(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, dir string) ([]archive.File, error) {
	b, err := snap.Open(ctx, sk.ID)
	if err != nil {
		return nil, unpublishable{err}
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil {
		return nil, unpublishable{err}
	}
	for _, d := range m.Diagnostics {
		return nil, unfit("%s: %s", d.Path, d.Detail)
	}
	if err := checkSignatures(ctx, b, m, sk); err != nil {
		return nil, err
	}
	var out []archive.File
	for _, f := range m.Files {
		name := fileName(f, sk)
		if strings.Contains(name, "..") || strings.Contains(name, `\`) {
			return nil, unfit("clients reject the name of its file %q", name)
		}
		to := path.Join(dir, name)
		err := s.pack(to, func(w io.Writer) error {
			in, err := b.Open(ctx, f.Path)
			if err != nil {
				return unpublishable{err}
			}
			_, err = io.Copy(w, io.LimitReader(in, f.Size+1))
			return errors.Join(err, in.Close())
		})
		if err != nil {
			return nil, err
		}
		if s.files[to].digest != string(f.Digest) {
			return nil, unfit("its file %s changed while it was copied", f.Path)
		}
		out = append(out, archive.File{Path: name, Size: f.Size, Executable: f.Exec, Open: func() (io.ReadCloser, error) { return s.root.Open(filepath.FromSlash(to)) }})
	}
	return out, nil
}

// pack writes a file of the site.
func (s *Site) pack(name string, write func(io.Writer) error) error {
	native := filepath.FromSlash(name)
	if err := s.root.MkdirAll(filepath.Dir(native), 0o755); err != nil {
		return err
	}
	f, err := s.root.OpenFile(native, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	h := digest.New()
	if err := errors.Join(write(io.MultiWriter(f, h)), f.Close()); err != nil {
		return err
	}
	s.files[name] = file{h.Sum(), mediaOf(name)}
	return nil
}

// put writes a file of the site as JSON.
func (s *Site) put(name string, value any) error {
	return s.pack(name, func(w io.Writer) error {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			return err
		}
		_, err := w.Write(b.Bytes())
		return err
	})
}

// mediaOf returns the Content-Type of a file. A browser shows none of them as a page.
func mediaOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return "application/json"
	case ".md":
		return "text/markdown; charset=utf-8"
	case ".zip":
		return "application/zip"
	}
	return "application/octet-stream"
}
