package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/skillname"
)

// lockVersion is the version of the format of a lock.
const lockVersion = 1

// Limits of a lock. A file of a skill takes at least leastObject bytes, so more objects than that have no
// digests, and would only fill the memory. The same is true of commas.
const (
	maxLock     = 32 << 20 // bytes
	leastObject = 60
	leastComma  = 16
)

// Lock lists the installed skills of a store. The same skills always have the same bytes as a lock.
type Lock struct {
	Version int              `json:"version"`
	Skills  map[string]Entry `json:"skills"` // by the name of their folder
}

// Entry is an installed skill: where it came from, and what its files are.
type Entry struct {
	Source
	Commit string                `json:"commit,omitempty"` // of a repository
	Digest string                `json:"digest,omitempty"` // of the bytes of an archive or a file, or of the manifest of an artifact
	Tree   string                `json:"tree"`             // over all files
	Files  map[string]LockedFile `json:"files"`            // by path
	// Scanner is the version of the rules by which the files were scanned before they were installed.
	Scanner string   `json:"scanner,omitempty"`
	Signers []string `json:"signers,omitempty"` // IDs of the signers of the files
	Plugin  string   `json:"plugin,omitempty"`  // name of the plugin that contains the skill in the source
	Version string   `json:"version,omitempty"` // metadata.version, if it is a version
	// Dependencies are the skills of the lock that the skill requires, by name.
	Dependencies []string `json:"dependencies,omitempty"`
	// Unmet are requirements of the skill that no installed skill meets, as it declares them.
	Unmet    []string `json:"unmet,omitempty"`
	Required bool     `json:"required,omitempty"` // it was installed only because others require it
	Agents   []string `json:"agents,omitempty"`   // agents whose folders link to the skill
}

// Revision returns the commit or the digest that identifies what a source contained.
func (e Entry) Revision() string {
	if e.Kind == OCI {
		return e.Digest
	}
	return e.Commit
}

// LockedFile is a file of an installed skill.
type LockedFile struct {
	SHA256 string `json:"sha256"`
	Mode   string `json:"mode"` // 0644 or 0755
}

// newLock returns a lock without skills.
func newLock() Lock { return Lock{Version: lockVersion, Skills: map[string]Entry{}} }

// ReadLock reads a lock. A missing file is a lock without skills.
func ReadLock(file string) (Lock, error) {
	raw, err := readLockFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newLock(), nil
	}
	if err != nil {
		return Lock{}, err
	}
	return parseLock(file, raw)
}

// readLockFile reads a lock. It follows no link: a repository can contain one that leads to a file of the
// user, whose content would get into the project.
func readLockFile(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = &metier.Error{Op: "read", Path: file, Kind: metier.Invalid, Code: "lock_invalid", Hint: "replace it by a file, or remove it", Err: errors.New("it is not a file")}
	}
	if err != nil {
		return nil, err
	}
	raw, more, err := confine.ReadBeneath(filepath.Dir(file), filepath.Base(file), maxLock)
	if errors.Is(err, fs.ErrPermission) {
		err = &metier.Error{Op: "read", Path: file, Kind: metier.Unavailable, Code: "lock_unreadable", Hint: "check its owner and its permissions", Err: fs.ErrPermission}
	}
	if err == nil && more {
		err = tooLarge("read", file)
	}
	return raw, err
}

func parseLock(file string, raw []byte) (Lock, error) {
	l := Lock{}
	err := sparse(raw)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&l)
		if _, end := d.Token(); err == nil && end != io.EOF {
			err = errors.New("there is text after its end")
		}
	}
	if err == nil && !bytes.Equal(raw, l.Bytes()) {
		err = unambiguous(raw)
	}
	switch {
	case err != nil:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("its text ends too early")
		}
		err = errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case l.Version != lockVersion:
		err = fmt.Errorf("its version is %d; the supported version is %d, so a newer version of metier wrote it", l.Version, lockVersion)
	default:
		err = l.check()
	}
	if err != nil {
		return Lock{}, &metier.Error{Op: "read", Path: file, Kind: metier.Invalid, Code: "lock_invalid", Hint: "restore the file from version control, or remove it and add the skills again", Err: err}
	}
	if l.Skills == nil {
		l.Skills = map[string]Entry{}
	}
	return l, nil
}

// sparse reports a lock with more objects and commas than a lock of its size can have.
func sparse(raw []byte) error {
	const slack = 1000
	if bytes.Count(raw, []byte("{")) > slack+len(raw)/leastObject || bytes.Count(raw, []byte(",")) > slack+len(raw)/leastComma {
		return errors.New("it has entries without digests")
	}
	return nil
}

// tooLarge reports a lock that could not be read again.
func tooLarge(op, file string) error {
	return &metier.Error{Op: op, Path: file, Kind: metier.LimitReached, Code: "lock_too_large", Hint: "install fewer skills, or skills with fewer files", Err: fmt.Errorf("the lock has more than %d MiB", maxLock>>20)}
}

// check reports a name, path, or digest that no metier writes.
func (l Lock) check() error {
	for name, e := range l.Skills {
		if err := checkName(name); err != nil {
			return err
		}
		if !digest.Valid(e.Tree) {
			return fmt.Errorf("skill %q: %q is not a digest", name, e.Tree)
		}
		for _, d := range e.Dependencies {
			if _, ok := l.Skills[d]; !ok {
				return fmt.Errorf("skill %q: it requires %q, which is not in the lock", name, d)
			}
		}
		for p, f := range e.Files {
			if clean, err := confine.Clean(p); err != nil || clean != p {
				return fmt.Errorf("skill %q: %q is not a path of a file in a skill", name, p)
			}
			if !digest.Valid("sha256:"+f.SHA256) || f.Mode != modeText(false) && f.Mode != modeText(true) {
				return fmt.Errorf("skill %q: the entry of %q has no valid digest and mode", name, p)
			}
		}
	}
	return nil
}

// checkName reports a name that cannot be the name of a folder of a store.
func checkName(name string) error {
	if name == "" || name != path.Base(name) || strings.HasPrefix(name, ".") || len(name) > skillname.Max || !filepath.IsLocal(name) || strings.ContainsAny(name, `\:`) {
		return fmt.Errorf("%q cannot be the name of a skill's folder", name)
	}
	return nil
}

// Bytes returns the text of the lock.
func (l Lock) Bytes() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(l); err != nil {
		panic("install: " + err.Error()) // strings and maps of strings can always be encoded
	}
	return b.Bytes()
}

func modeText(exec bool) string {
	if exec {
		return "0755"
	}
	return "0644"
}

// lockedFiles returns the files of a manifest as a lock lists them.
func lockedFiles(m metier.Manifest) map[string]LockedFile {
	out := make(map[string]LockedFile, len(m.Files))
	for _, f := range m.Files {
		out[f.Path] = LockedFile{SHA256: strings.TrimPrefix(string(f.Digest), "sha256:"), Mode: modeText(f.Exec)}
	}
	return out
}
