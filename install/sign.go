package install

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/namedfile"
	"metier/internal/termtext"
	"metier/settings"
	"metier/signature"
)

// maxKey limits the size of a private key that is read.
const maxKey = 64 << 10

// Signed is a skill that was signed, or can be.
type Signed struct {
	Statement signature.Statement `json:"statement"`
	File      string              `json:"file,omitempty"` // the signature, in the folder of the skill
	Notes     []string            `json:"notes"`          // other signatures of the skill that are not valid; safe to print
}

// Sign signs the skill in a folder with the private key in a file, for SSH or minisign. It writes the
// signature into the folder. Without a key, it writes nothing, and returns the statement to sign.
func Sign(ctx context.Context, dir, key string, set settings.Settings) (Signed, error) {
	p, err := openPackable(ctx, dir, set)
	if err != nil {
		return Signed{}, err
	}
	defer p.bundle.Close()
	sk, m := p.skill, p.manifest
	out := Signed{Notes: []string{}}
	if out.Statement, err = (signature.Trust{}).Statement(sk.Slug, signedFiles(m)); err != nil || key == "" {
		return out, err
	}
	raw, err := namedfile.Read(key, maxKey)
	if err != nil {
		return out, metier.Fieldf(metier.Invalid, "SignRequest.Key", "sign_key_unreadable", "specify the file of a private key", "%v", err)
	}
	name, text, err := signature.Sign(out.Statement, raw)
	if errors.Is(err, signature.ErrEncrypted) {
		return out, metier.Fieldf(metier.Unsupported, "SignRequest.Key", "sign_key_encrypted", "sign the statement with ssh-keygen -Y sign or minisign, which ask for the password; see docs/guides/trust.md", "%s: the key has a password", key)
	}
	if err != nil {
		return out, metier.Fieldf(metier.Invalid, "SignRequest.Key", "sign_key_invalid", "use a private key of ssh-keygen, or a secret key of minisign", "%s: %v", key, err)
	}
	out.File = filepath.Join(dir, filepath.FromSlash(sk.ID.Path), name)
	if out.Notes, err = outdated(out.Statement, m, name, reader(ctx, p.bundle, m)); err != nil {
		return out, err
	}
	root, err := confine.OpenRoot(filepath.Dir(out.File))
	if err != nil {
		return out, err
	}
	defer root.Close()
	return out, atomicfile.PutIn(root, name, text, 0o644)
}

// outdated notes a signature of the skill that is not about its files, except the one that is replaced.
func outdated(st signature.Statement, m metier.Manifest, replaced string, read func(string) ([]byte, error)) ([]string, error) {
	others := slices.DeleteFunc(signedFiles(m), func(f signature.File) bool { return strings.EqualFold(f.Path, replaced) })
	_, err := signature.Trust{}.Check(signature.Subject{Name: st.Name, Files: others, Read: read})
	if bad, ok := errors.AsType[*signature.BadError](err); ok {
		return []string{"the skill cannot be installed until this is fixed: " + termtext.Line(bad.Error())}, nil
	}
	return []string{}, err
}
