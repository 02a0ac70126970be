package run

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"metier"
)

const maxID = 128

// timeInID is the layout of the time that begins an ID.
const timeInID = "20060102-150405"

var generated = regexp.MustCompile(`\A\d{8}-\d{6}-[0-9a-f]{8}\z`)

// NewID returns an ID for a run that begins now: the time in UTC, and four random bytes.
func NewID(now time.Time) string {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // the kernel's generator does not fail
	}
	return fmt.Sprintf("%s-%x", now.UTC().Format(timeInID), b)
}

// GeneratedID reports whether id has the form that [NewID] returns.
func GeneratedID(id string) bool { return generated.MatchString(id) }

// IDTime returns the time that begins an ID, in seconds, or the zero time if there is none.
func IDTime(id string) time.Time {
	at, _ := time.Parse(timeInID, id[:min(len(id), len(timeInID))])
	return at
}

// CheckID returns an error unless id is a valid run id: 1 to 128 letters, digits, dots, underscores
// and hyphens, but not ".", "..", or "latest".
func CheckID(id string) error {
	bad := func(why string) error {
		return wrong(metier.Invalid, CodeIDInvalid, id, "use letters, digits, dot, underscore and hyphen, at most 128 of them", "a run id %s", why)
	}
	switch {
	case id == "":
		return bad("is not empty")
	case len(id) > maxID:
		return bad("has at most 128 characters")
	case id == "." || id == "..":
		return bad(`is not "." or ".."`)
	case id == latest:
		return bad("is not the word for the newest run")
	}
	for _, r := range id {
		if r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return bad("has only letters, digits, dot, underscore and hyphen")
		}
	}
	return nil
}

// Find resolves a user's reference to a run. That is its id, a unique prefix of the id, the path of
// its folder or of a file in it (run-state.json), or "latest" for the run that started last. It
// returns root and id for [Open]. The returned root differs from the given one if a path
// leads elsewhere.
func Find(root, what string) (string, string, error) {
	if what == "" {
		return "", "", wrong(metier.Invalid, CodeIDInvalid, "", `specify a run, or "latest"`, "no run was specified")
	}
	if strings.ContainsAny(what, `/\`) || what == FileState {
		return findPath(what)
	}
	ids, err := runs(root)
	if err != nil {
		return "", "", err
	}
	if what == latest {
		return findLatest(root, ids)
	}
	if slices.Contains(ids, what) {
		return root, what, nil
	}
	var match []string
	for _, id := range ids {
		if strings.HasPrefix(id, what) {
			match = append(match, id)
		}
	}
	switch {
	case len(match) == 1:
		return root, match[0], nil
	case len(match) > 1:
		return "", "", wrong(metier.Invalid, CodeAmbiguous, root, "enter more characters of the ID", "%d runs start with %q: %s", len(match), what, listed(match))
	}
	if info, err := os.Stat(what); err == nil && (info.IsDir() || filepath.Ext(what) == ".zip") {
		return findPath(what)
	}
	return "", "", wrong(metier.NotFound, CodeNotFound, root, "'metier runs list' shows all runs", "there is no run %q", what)
}

// findPath resolves the path of a run's folder, or of a file in it.
func findPath(path string) (string, string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", "", fault("find", path, err)
	}
	info, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", wrong(metier.NotFound, CodeNotFound, path, "'metier runs list' shows all runs", "nothing exists at this path")
	}
	if err != nil {
		return "", "", fault("find", path, err)
	}
	if !info.IsDir() && filepath.Ext(abs) == ".zip" {
		return "", "", wrong(metier.Invalid, CodeIDInvalid, path, "unzip it, and specify the folder of the run in it", "this is an archive")
	}
	if !info.IsDir() {
		abs = filepath.Dir(abs)
	}
	if info, err := os.Stat(filepath.Join(abs, FileLog)); err != nil || !info.Mode().IsRegular() {
		return "", "", wrong(metier.NotFound, CodeNotFound, path, "specify the folder that contains events.jsonl, or a file in it", "this is not a run folder")
	}
	id := filepath.Base(abs)
	return filepath.Dir(abs), id, CheckID(id)
}

// runs lists the ids of all folders below root that may be runs, sorted.
func runs(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault("list", root, err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && CheckID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// listed lists IDs for an error, at most five of them.
func listed(ids []string) string {
	const most = 5
	list := strings.Join(ids[:min(most, len(ids))], ", ")
	if len(ids) > most {
		list += ", …"
	}
	return list
}
