package install

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/internal/jsonedit"
	"metier/internal/namedfile"
)

// skillsEntry is an entry of a skills-lock.json (version 1), or of a .skill-lock.json (version 3).
// The npm package skills writes these files for a project and for a home.
type skillsEntry struct {
	Source       string `json:"source"`
	SourceURL    string `json:"sourceUrl,omitempty"`
	Ref          string `json:"ref,omitempty"`
	SourceType   string `json:"sourceType"`
	SkillPath    string `json:"skillPath,omitempty"` // of SKILL.md in the source
	ComputedHash string `json:"computedHash,omitempty"`
}

// skillsLock is the content of such a file. The entries that nobody changes keep their text.
type skillsLock struct {
	whole   *jsonedit.Object
	entries map[string]json.RawMessage
}

// readSkillsLock reads such a file. It returns nil if the file does not exist.
func readSkillsLock(file string) (*skillsLock, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := readLockFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &skillsLock{entries: map[string]json.RawMessage{}}
	if l.whole, err = jsonedit.Parse(raw); err == nil {
		if skills, ok := l.whole.Get("skills"); ok {
			err = json.Unmarshal(skills, &l.entries)
		}
	}
	if err != nil {
		return nil, &metier.Error{Op: "read", Path: file, Kind: metier.Invalid, Code: "lock_invalid", Hint: "restore the file from version control, or remove it", Err: err}
	}
	return l, nil
}

// source returns the source of a skill, if it can be installed from there.
func (l *skillsLock) source(name string) (s Source, ok bool) {
	if l == nil {
		return s, false
	}
	var e skillsEntry
	if json.Unmarshal(l.entries[name], &e) != nil || e.Source == "" {
		return s, false
	}
	folder := strings.TrimSuffix(path.Dir(e.SkillPath), ".")
	switch e.SourceType {
	case "local":
		return Source{Kind: Folder, Location: e.Source, Path: folder}, true
	case "well-known":
		s, err := parseAddress(cmp.Or(e.SourceURL, "https://"+e.Source))
		s.Path, s.Query = name, ""
		return s, err == nil && s.Kind == Index
	case "github", "gitlab", "git":
		at := cmp.Or(e.SourceURL, e.Source)
		if !strings.Contains(at, "://") && !scp.MatchString(at) {
			at = "https://" + map[string]string{"gitlab": "gitlab.com"}[e.SourceType] + "/" + at
			at = strings.Replace(at, "https:///", "https://github.com/", 1)
		}
		s, err := repository(strings.TrimSuffix(at, ".git"), e.Ref, folder)
		return s, err == nil
	}
	return s, false
}

// set writes the entry of an installed skill.
func (l *skillsLock) set(name string, e Entry, hash string) error {
	out := skillsEntry{Source: e.Location, SourceType: "local", ComputedHash: hash}
	switch e.Kind {
	case Git:
		out.SourceType, out.Ref, out.SkillPath = "git", e.Ref, path.Join(e.Path, "SKILL.md")
		if u, err := url.Parse(e.Location); err == nil && u.Host == "github.com" {
			out.SourceType, out.Source = "github", strings.Trim(u.Path, "/")
		} else {
			out.SourceURL = e.Location
		}
	case Index:
		out.SourceType, out.SourceURL = "well-known", e.Location
	}
	raw, err := json.Marshal(out)
	l.entries[name] = raw
	return err
}

// text returns the file. The package skills sorts it the same way.
func (l *skillsLock) text() ([]byte, error) {
	raw, err := json.Marshal(l.entries)
	if err != nil {
		return nil, err
	}
	l.whole.Set("skills", raw)
	return l.whole.Text()
}

// folderHash returns the hash of a skill as the package skills computes it.
func folderHash(ctx context.Context, src metier.Source) (string, error) {
	b, err := src.Open(ctx, ".")
	if err != nil {
		return "", err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil {
		return "", err
	}
	slices.SortFunc(m.Files, func(a, b metier.File) int { return compareNames(a.Path, b.Path) })
	h := sha256.New()
	for _, f := range m.Files {
		in, err := b.Open(ctx, f.Path)
		if err != nil {
			return "", err
		}
		io.WriteString(h, f.Path)
		_, err = io.Copy(h, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// order is the order of the printable ASCII characters in the root collation of Unicode, without
// letters, which follow in the order of the alphabet.
const order = ` _-,;:!?.'"()[]{}@*/\&#%` + "`" + `^+<=>|~$0123456789`

// compareNames compares two names as JavaScript's localeCompare does if they are ASCII: by all their
// characters without case first, then by case, lowercase first.
func compareNames(a, b string) int {
	weight := func(c byte) int {
		switch {
		case 'a' <= c && c <= 'z':
			return 1000 + int(c)
		case 'A' <= c && c <= 'Z':
			return 1000 + int(c) + 'a' - 'A'
		case c >= 0x80:
			return 2000 + int(c)
		}
		return strings.IndexByte(order, c)
	}
	for i := range min(len(a), len(b)) {
		if d := cmp.Compare(weight(a[i]), weight(b[i])); d != 0 {
			return d
		}
	}
	if d := cmp.Compare(len(a), len(b)); d != 0 {
		return d
	}
	return -strings.Compare(a, b) // lowercase letters have the greater codes
}

// openSkillsFile is the file in which the npm package openskills notes where a skill came from.
const openSkillsFile = ".openskills.json"

// openSkillsSource returns the repository that the package openskills noted in a skill's folder. A folder is
// not accepted: the skill, which contains the note, would then be local by its own word.
func (s *Store) openSkillsSource(name string) (Source, bool) {
	dir, err := s.root.OpenRoot(name)
	if err != nil {
		return Source{}, false
	}
	defer dir.Close()
	raw, err := namedfile.ReadIn(dir, openSkillsFile, 1<<20)
	if err != nil {
		return Source{}, false
	}
	var e struct{ SourceType, RepoURL, Subpath string }
	if json.Unmarshal(bytes.TrimSpace(raw), &e) != nil || e.SourceType != "git" {
		return Source{}, false
	}
	out, err := repository(strings.TrimSuffix(e.RepoURL, ".git"), "", e.Subpath)
	return out, err == nil && e.RepoURL != ""
}
