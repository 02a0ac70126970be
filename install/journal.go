package install

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/namedfile"
)

// journal is the file in the staging folder that makes a change final. It lists what remains to be done.
// Its first line is a signature of the rest.
const journal = "journal"

// maxJournal limits the size of a journal that is read.
const maxJournal = 2 * maxLock

// decided is the content of a journal.
type decided struct {
	ID   string            `json:"id"`
	Put  map[string]string `json:"put"`  // names, and the trees that they get
	Gone []string          `json:"gone"` // names that are removed
	Dir  string            `json:"dir"`  // the real path of the skills folder
	File string            `json:"file"` // of the lock
	Lock string            `json:"lock"` // its new text
	// Other is the new text of the lock of the package skills, or nil.
	Other []byte `json:"other,omitempty"`
	// Links of other agents' folders that are created and removed.
	Links   []link    `json:"links,omitempty"`
	Unlinks []link    `json:"unlinks,omitempty"`
	At      time.Time `json:"at"`
}

// decide writes the journal. It returns false if the change may be final although there is an error.
func (s *Store) decide(d decided) (clean bool, err error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return true, err
	}
	if s.key == nil {
		s.key = readKey(s.o.Key, true)
	}
	err = atomicfile.PutIn(s.work, journal, append(s.sign(raw), raw...), 0o600)
	if err == nil {
		return true, nil
	}
	if gone := s.work.Remove(journal); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return false, errors.Join(err, gone) // it may be complete, so what it needs must stay
	}
	return true, err
}

// decision reads the journal, or returns false if it does not exist.
func (s *Store) decision() (d decided, ok bool, err error) {
	raw, err := namedfile.ReadIn(s.work, journal, maxJournal)
	if err != nil {
		return d, false, ignoreMissing(err)
	}
	s.key = readKey(s.o.Key, false)
	const line = 2*sha256.Size + 1
	if text := raw[min(line, len(raw)):]; s.key == nil || !hmac.Equal(s.sign(text), raw[:len(raw)-len(text)]) {
		return d, false, &metier.Error{Op: "recover", Path: s.path(work, journal), Kind: metier.Denied, Code: "install_journal_foreign",
			Hint: "if a change was interrupted, it was with another home folder; otherwise, the file came with the project. Remove " + s.path(work) + ", and run verify",
			Err:  errors.New("this user's metier did not write the file")}
	}
	if err := json.Unmarshal(raw[line:], &d); err != nil {
		return d, false, &metier.Error{Op: "recover", Path: s.path(work, journal), Kind: metier.Invalid, Code: "install_journal_damaged", Hint: "remove the file, and run verify", Err: err}
	}
	if d.ID == "" || d.ID != path.Base(d.ID) || d.File != s.o.Lock || d.Dir != s.real {
		return d, false, metier.Errorf(metier.Invalid, "install_journal_damaged", "remove the file, and run verify", "%s is of another store", s.path(work, journal))
	}
	return d, true, nil
}

// sign returns the first line of a journal with this text.
func (s *Store) sign(text []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(text)
	return append(hex.AppendEncode(nil, h.Sum(nil)), '\n')
}

// keyLen is the length of a key in bytes.
const keyLen = 32

// readKey returns the key in a file. With create, it creates a missing one, and returns a key that only
// this process has if the file cannot be used. Otherwise, it then returns nil.
func readKey(file string, create bool) []byte {
	key := bytes.Repeat([]byte{0}, keyLen)
	rand.Read(key)
	if file != "" && create {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
			tmp := file + "." + rand.Text()[:12] + ".tmp"
			if atomicfile.Write(tmp, key, 0o600) == nil {
				_ = os.Link(tmp, file) // fails if another process was faster: then its key is used
			}
			_ = os.Remove(tmp)
		}
	}
	if got, err := namedfile.Read(file, keyLen); err == nil && len(got) == keyLen {
		return got
	}
	if !create {
		return nil
	}
	return key
}
