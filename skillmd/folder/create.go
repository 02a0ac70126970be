package folder

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"metier/internal/nfkc"
	"metier/skillmd"
)

//go:embed new.md
var body string

// New returns the text of a new SKILL.md, which both validators accept. If name
// cannot be the name of a skill, wrong says why.
func New(name string) (text string, wrong *skillmd.Diagnostic) {
	title := []rune(strings.ReplaceAll(name, "-", " "))
	if len(title) > 0 {
		title[0] = unicode.ToUpper(title[0])
	}
	// Quotes keep a name such as null or 007 a text.
	text = fmt.Sprintf("---\nname: %q\ndescription: Say in one or two sentences what this skill does. Use when the task matches these words.\n---\n", name) +
		strings.ReplaceAll(body, "{{title}}", string(title))
	for _, d := range skillmd.Validate([]byte(text), skillmd.Folder{Name: name}) {
		if d.Code == skillmd.CodeNamePortable || d.Severity == skillmd.Error {
			return "", &d
		}
	}
	return text, nil
}

// Suggest returns a valid name that is like name, or "" if there is none.
func Suggest(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(nfkc.String(name)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if s := strings.Join(parts, "-"); len(s) <= skillmd.MaxName && s != name {
		return s
	}
	return ""
}

// ErrExists is the error of [Create] for a folder that has a skill.
var ErrExists = errors.New("it already exists")

// Create creates a folder with a SKILL.md. It overwrites no file, and does not
// follow a link at dir, which may lead anywhere.
func Create(dir, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(dir)
	if err := parent.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch info, err := parent.Lstat(name); {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", name)
	case !info.IsDir():
		return fmt.Errorf("%s is a file", name)
	}
	for _, n := range []string{"SKILL.md", "skill.md"} {
		if _, err := parent.Lstat(filepath.Join(name, n)); err == nil {
			return ErrExists
		}
	}
	file := filepath.Join(name, "SKILL.md")
	f, err := parent.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		return errors.Join(err, f.Close(), parent.Remove(file))
	}
	return f.Close()
}
