package install

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/namedfile"
	"metier/internal/rootfile"
	"metier/source/local"
)

// provenances is the folder in a skills folder with a file for each installed skill.
const provenances = ".metier/provenance"

// Provenance is where an installed skill came from. A file beside the skill contains it.
type Provenance struct {
	Source
	OriginURL   string    `json:"originUrl"`        // of the page or the files, if it has an address
	Plugin      string    `json:"plugin,omitempty"` // that contains the skill
	Commit      string    `json:"commit,omitempty"`
	Digest      string    `json:"digest,omitempty"` // of the bytes of an archive or a file, or of the manifest of an artifact
	Tree        string    `json:"tree"`             // over all files
	Signers     []string  `json:"signers,omitempty"`
	InstalledAt time.Time `json:"installedAt"`
}

// String returns the source, with the commit or the digest that was installed, and the plugin of the skill.
func (p Provenance) String() string {
	text := p.Source.String()
	if at := (Entry{Source: p.Source, Commit: p.Commit, Digest: p.Digest}).Revision(); at != "" {
		text += " at " + at
	}
	if p.Plugin != "" {
		text += ", plugin " + p.Plugin
	}
	return text
}

// provenance returns the provenance of a skill that is installed now. located is its source with an
// absolute path.
func (e Entry) provenance(located Source, at time.Time) Provenance {
	p := Provenance{Source: e.Source, OriginURL: e.Location, Plugin: e.Plugin, Commit: e.Commit, Digest: e.Digest, Tree: e.Tree, Signers: e.Signers, InstalledAt: at.UTC()}
	if e.Local() {
		p.OriginURL = (&url.URL{Scheme: "file", Path: filepath.ToSlash(located.Location)}).String()
	} else if e.Kind == Git && strings.HasPrefix(e.Location, "https://github.com/") {
		p.OriginURL += path.Join("/tree", e.Commit, e.Path)
	}
	return p
}

// ReadProvenance returns the provenance of the skill in a folder, or false if none is stored. It also
// returns false unless one of the locks and the files agree with it: a repository can contain any file.
func ReadProvenance(ctx context.Context, folder string, locks ...string) (Provenance, bool, error) {
	var p Provenance
	skills, err := os.OpenRoot(filepath.Dir(folder))
	if err != nil {
		return p, false, ignoreMissing(err)
	}
	defer skills.Close()
	root, err := rootfile.EnterPath(skills, provenances, nil)
	if err != nil {
		return p, false, ignoreMissing(err)
	}
	defer root.Close()
	raw, err := namedfile.ReadIn(root, filepath.Base(folder)+".json", 1<<20)
	if err != nil {
		return p, false, ignoreMissing(err)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, false, err
	}
	for _, file := range locks {
		lock, err := ReadLock(file)
		if err != nil {
			return p, false, err
		}
		if e, ok := lock.Skills[filepath.Base(folder)]; !ok || e.Source != p.Source || e.Commit != p.Commit || e.Digest != p.Digest || e.Tree != p.Tree {
			continue
		}
		src, err := local.New(folder, &local.Options{Installed: true})
		if err != nil {
			return p, false, err
		}
		m, err := manifestOf(ctx, src, ".")
		return p, err == nil && string(m.Tree) == p.Tree, nil
	}
	return p, false, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// note stores the provenances of the skills of a change, and removes those of removed skills.
func (s *Store) note(d decided) error {
	dir, err := s.own(provenances)
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := parseLock(d.File, []byte(d.Lock))
	if err != nil {
		return err
	}
	for name := range d.Put {
		located, err := s.located(lock.Skills[name].Source)
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(lock.Skills[name].provenance(located, d.At), "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.In(dir, name+".json", d.ID, append(raw, '\n'), 0o644, false); err != nil {
			return err
		}
	}
	for _, name := range d.Gone {
		if err := dir.Remove(name + ".json"); ignoreMissing(err) != nil {
			return err
		}
	}
	return confine.Sync(dir) // all at once
}
