package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"metier"
	"metier/internal/diagcodes"
	"metier/internal/digest"
	"metier/internal/injection"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Hosts accept these names and descriptions (Agent Skills specification).
const (
	mostName        = 64
	mostDescription = 1024
)

var listedName = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

const (
	// CodeHidden is the code of a skill that skills/list omits because its
	// author hides it from models.
	CodeHidden     = "mcp-unlisted-hidden"
	codeUnreadable = "mcp-unlisted-unreadable"
)

// Unlisted returns why skills/list omits a skill, or a diagnostic without a code
// if it lists it. It reads the skill's files; the error is that of a canceled ctx.
func Unlisted(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, stage settings.Activate) (metier.Diagnostic, error) {
	c := checks{blocks: func(t policy.Tier) bool { return metier.BlocksInjection(stage.Injection, t) }}
	v, err := c.held(ctx, snap, sk, nil)
	switch {
	case ctx.Err() != nil:
		return metier.Diagnostic{}, ctx.Err()
	case err != nil:
		return omitted(codeUnreadable, "%v", err), nil
	}
	return v.unlisted, nil
}

func omitted(code, format string, args ...any) metier.Diagnostic {
	return metier.Diagnostic{Severity: skillmd.Warning, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// unlisted reports what keeps a skill out of skills/list before any file is
// read: a host rejects an entry that breaks these rules, and some reject the
// whole list.
func unlisted(sk metier.Skill, head metier.Head, files int, size int64) metier.Diagnostic {
	switch {
	case head.FileName != "SKILL.md":
		return omitted("mcp-unlisted-file-name", "its file is named %s", termtext.Quote(head.FileName))
	case !sk.ModelInvocable:
		return omitted(CodeHidden, "")
	case files > mostFiles:
		return omitted("mcp-unlisted-size", "it has %d files", files)
	case size > mostBytes:
		return omitted("mcp-unlisted-size", "its files have %d bytes", size)
	}
	for _, d := range head.Diagnostics {
		if diagcodes.Repaired(d.Code) {
			return omitted("mcp-unlisted-frontmatter", "this frontmatter needed a repair (%s)", d.Code)
		}
	}
	return metier.Diagnostic{}
}

// required checks the fields that hosts require, as they are listed: text, not
// cut and not trimmed.
func required(front json.RawMessage) metier.Diagnostic {
	var f map[string]any
	_ = json.Unmarshal(front, &f) // we wrote it; a number it cannot hold is no name
	name, is := f["name"].(string)
	switch {
	case !is:
		return omitted("mcp-unlisted-name", "name is missing or not text")
	case len(name) > mostName || !listedName.MatchString(name):
		return omitted("mcp-unlisted-name", "the name is %s", termtext.Quote(name))
	}
	description, is := f["description"].(string)
	n := utf8.RuneCountInString(description)
	switch {
	case !is || strings.Trim(strings.TrimSpace(description), "\ufeff") == "":
		return omitted("mcp-unlisted-description", "description is missing, empty, or not text")
	case n > mostDescription:
		return omitted("mcp-unlisted-description", "the description has %d characters", n)
	}
	if _, is := f["__proto__"]; is {
		return omitted("mcp-unlisted-frontmatter", "clients in JavaScript lose the key __proto__")
	}
	return metier.Diagnostic{}
}

// checks holds what is known about files by their digests, so that a refresh
// reads only files that changed. It is safe for concurrent use.
type checks struct {
	blocks func(policy.Tier) bool

	mu    sync.Mutex
	known map[metier.Digest]checked
}

// checked is what was found in one file.
type checked struct {
	scanned  bool // suspect holds
	suspect  bool // it reads like an injection, and is not only about one
	parsed   bool // the fields below hold
	front    json.RawMessage
	frontErr string // why there is no front
}

// keep forgets files that are not served any more.
func (c *checks) keep(all []*served) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := make(map[metier.Digest]checked, len(c.known))
	for _, v := range all {
		for _, f := range v.files {
			if k, is := c.known[f.Digest]; is {
				kept[f.Digest] = k
			}
		}
	}
	c.known = kept
}

// verify checks the contents of a skill: its entry gets the frontmatter as hosts
// read it, and every file must be one that [Server.readResource] delivers.
func (c *checks) verify(ctx context.Context, b metier.Bundle, v *served, files []metier.File) (metier.Diagnostic, error) {
	guarded := c.blocks != nil && c.blocks(v.skill.Tier.Or())
	main := v.skill.Head.FileName
	if len(files) == 0 { // dynamic: only SKILL.md is known
		files = []metier.File{{Path: main}}
	}
	for _, f := range files {
		if f.Path != main && !guarded {
			continue
		}
		k, err := c.file(ctx, b, f, f.Path == main, guarded)
		switch {
		case ctx.Err() != nil:
			return metier.Diagnostic{}, ctx.Err()
		case err != nil:
			return omitted(codeUnreadable, "%s: %v", termtext.Quote(f.Path), err), nil
		case k.suspect && guarded:
			return omitted("mcp-unlisted-injection", "the file is %s", termtext.Quote(f.Path)), nil
		case f.Path == main && k.frontErr != "":
			return omitted("mcp-unlisted-frontmatter", "%s", k.frontErr), nil
		case f.Path == main:
			v.entry.Frontmatter = k.front
		}
	}
	return required(v.entry.Frontmatter), nil
}

// file checks one file; main is SKILL.md, and scan looks for injections.
func (c *checks) file(ctx context.Context, b metier.Bundle, f metier.File, main, scan bool) (checked, error) {
	c.mu.Lock()
	k := c.known[f.Digest]
	c.mu.Unlock()
	if (k.scanned || !scan) && (k.parsed || !main) && f.Digest != "" {
		return k, nil
	}
	r, err := b.Open(ctx, f.Path)
	if err != nil {
		return k, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, mostBytes+1))
	if err != nil {
		return k, err
	}
	if f.Digest != "" && metier.Digest(digest.Bytes(data)) != f.Digest {
		return k, errChanging
	}
	if scan {
		k.scanned = true
		k.suspect = injection.Orders(injection.Find(string(data)))
	}
	if main {
		k.parsed = true
		front, err := skillmd.TypedJSON(data)
		if k.front = bytes.Clone(front); err != nil {
			k.frontErr = err.Error()
		}
	}
	if f.Digest == "" {
		return k, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[metier.Digest]checked{}
	}
	c.known[f.Digest] = k
	return k, nil
}

// misplaced reports a file whose address leads to a file of another skill.
func (x *index) misplaced(v *served) metier.Diagnostic {
	for _, f := range v.files {
		at, file, ok := x.find(f.URI)
		same := ok && at.skill.ID.Source == v.skill.ID.Source && path.Join(at.skill.ID.Path, file) == path.Join(v.skill.ID.Path, f.path)
		if same {
			continue // a skill inside another shares its files with it
		}
		return omitted("mcp-unlisted-address", "the address is %s", termtext.Quote(f.URI))
	}
	return metier.Diagnostic{}
}
