package install

import (
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier"
	"metier/internal/archive"
)

// Kind is a kind of place that skills are installed from.
type Kind string

// The kinds.
const (
	Folder  Kind = "folder"  // on this machine
	Archive Kind = "archive" // on this machine, or at an address
	File    Kind = "file"    // one SKILL.md at an address
	Git     Kind = "git"     // a repository
	Index   Kind = "index"   // a site with /.well-known/agent-skills
	OCI     Kind = "oci"     // an artifact in a registry
)

// Source is a place that skills are installed from. It contains no credentials.
type Source struct {
	Kind     Kind   `json:"kind"`
	Location string `json:"source"`         // a path, or an address
	Ref      string `json:"ref,omitempty"`  // of a repository: the branch, tag, or commit to use; "": its default branch. Of an artifact: its tag or digest
	Path     string `json:"path,omitempty"` // folder in it, with slashes; "": the top
	// Query is the query of the address if it may be a secret. It is neither stored nor shown.
	Query   string `json:"-"`
	Partial bool   `json:"partial,omitempty"` // the address has such a query
}

// String returns the source as [Parse] accepts it.
func (s Source) String() string {
	text := s.Location
	switch {
	case s.Kind == OCI && !s.Pinned():
		text += ":" + s.Ref
	case s.Ref != "":
		text += "@" + s.Ref
	}
	if s.Path != "" {
		text += "#" + s.Path
	}
	return text
}

// Local reports whether the source is on this machine.
func (s Source) Local() bool {
	return (s.Kind == Folder || s.Kind == Archive) && !strings.Contains(s.Location, "://")
}

// isArchive reports whether a path or an address is that of an archive.
func isArchive(name string) bool {
	_, ok := archive.FormatOf(name)
	return ok
}

// forms is what Parse accepts, for messages.
const forms = "use a path such as ./my-skill or my-skill.zip, OWNER/REPO[/FOLDER][@REF] for GitHub, or an address (https, ssh, git, or oci)"

var (
	github  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+(/[^@#]*)?(@[^#]+)?(#.*)?$`)
	scp     = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^:]`)
	schemes = map[string]bool{"file": true, "git+file": true, "git+https": true, "git+ssh": true, "http": true, "https": true, "oci": true, "ssh": true}
)

// Parse reads a source as a user writes it. A path is local if it begins with ".", "/", or "~", or
// has no slash; it is relative to dir, and the home replaces "~". OWNER/REPO is a repository on GitHub
// even if a folder has that name.
func Parse(text, dir, home string) (Source, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "" || strings.HasPrefix(text, "-") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Source{}, wrongSource(text)
	case isPath(text):
		return localSource(text, dir, home)
	case scp.MatchString(text):
		return parseGit(text)
	case strings.Contains(text, "://"):
		return parseAddress(text)
	case github.MatchString(text):
		return parseGitHub(text)
	case !strings.ContainsAny(text, "/:"):
		return localSource(text, dir, home)
	}
	return Source{}, wrongSource(text)
}

func wrongSource(text string) error {
	return metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", forms, "%q is not a source of skills", withoutSecrets(text))
}

func secretSource() error {
	return metier.Fieldf(metier.Invalid, "Request.Source", "source_password", "remove it, and let git ask its credential helper", "the address contains a password or a token")
}

func isPath(text string) bool {
	return text == "." || text == ".." || text == "~" || filepath.IsAbs(text) ||
		slices.ContainsFunc([]string{"./", "../", "~/", `.\`, `..\`}, func(p string) bool { return strings.HasPrefix(text, p) })
}

func localSource(text, dir, home string) (Source, error) {
	p := text
	if rest, ok := strings.CutPrefix(text, "~"); ok && (rest == "" || rest[0] == '/') {
		if home == "" {
			return Source{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", "write the path without ~", "%q: there is no home folder", text)
		}
		p = home + rest
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(dir, p)
	}
	s := Source{Kind: Folder, Location: filepath.Clean(p)}
	if isArchive(p) {
		s.Kind = Archive
	}
	return s, nil
}

// cut separates the folder, and then the reference, from an address. A reference with a slash follows
// .git, or is a full name such as refs/heads/release/1.
func cut(text string) (location, ref, folder string) {
	location, folder, _ = strings.Cut(text, "#")
	for _, sep := range []string{".git@", "@refs/"} {
		if at := strings.Index(location, sep); at >= 0 {
			at += strings.Index(sep, "@")
			return location[:at], location[at+1:], folder
		}
	}
	if at := strings.LastIndex(location, "@"); at > strings.LastIndexAny(location, "/:") {
		location, ref = location[:at], location[at+1:]
	}
	return location, ref, folder
}

func parseGitHub(text string) (Source, error) {
	location, folder, _ := strings.Cut(text, "#")
	location, ref, _ := strings.Cut(location, "@")
	parts := strings.SplitN(location, "/", 3)
	if len(parts) == 3 && folder == "" {
		folder = parts[2]
	}
	return repository("https://github.com/"+parts[0]+"/"+strings.TrimSuffix(parts[1], ".git"), ref, folder)
}

func parseGit(text string) (Source, error) {
	at := strings.Index(text, ":")
	location, ref, folder := cut(text[at:])
	return repository(text[:at]+location, ref, folder)
}

// repository returns a source of kind Git, unless git would read part of it as something else.
func repository(location, ref, folder string) (Source, error) {
	s := Source{Kind: Git, Location: location, Ref: ref}
	if folder = strings.Trim(folder, "/"); folder != "" {
		s.Path = path.Clean(folder)
	}
	switch {
	case s.Path != "" && (!filepath.IsLocal(filepath.FromSlash(s.Path)) || strings.Contains(s.Path, `\`)):
		return s, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", "use a folder in the repository", "the folder %q is not in the repository", folder)
	case strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, " ~^:?*[\\") || strings.Contains(ref, "..") || strings.Contains(ref, "@{"):
		return s, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", "use the name of a branch or a tag, or a full commit", "%q is not a branch, tag, or commit", ref)
	}
	return s, nil
}

// parseAddress reads an address with a scheme.
func parseAddress(text string) (Source, error) {
	u, err := url.Parse(text)
	if err != nil || !schemes[u.Scheme] {
		return Source{}, wrongSource(text)
	}
	if hasSecret(u) {
		return Source{}, secretSource()
	}
	scheme, isGit := strings.CutPrefix(u.Scheme, "git+")
	isGit = isGit || scheme == "ssh" || scheme == "file" || strings.HasSuffix(strings.TrimRight(u.Path, "/"), ".git") || strings.Contains(u.Path, ".git@")
	text = scheme + "://" + strings.TrimPrefix(text, u.Scheme+"://")
	switch {
	case scheme == "oci":
		return parseArtifact(text)
	case isGit && !plainQuery(u):
		return Source{}, secretSource()
	case isGit:
		location, ref, folder := cut(text)
		return repository(location, ref, folder)
	case scheme == "https" && (u.Host == "github.com" || u.Host == "gitlab.com"):
		return parseForge(u)
	}
	text, entry, _ := strings.Cut(text, "#")
	switch {
	case isArchive(u.Path):
		return Source{Kind: Archive, Location: text}.hideQuery(u), nil
	case strings.EqualFold(path.Base(u.Path), "SKILL.md"):
		return Source{Kind: File, Location: text}.hideQuery(u), nil
	}
	return Source{Kind: Index, Location: text, Path: entry}.hideQuery(u), nil
}

// parseForge reads the address of a repository, or of a folder in it, as a browser shows it.
func parseForge(u *url.URL) (Source, error) {
	p, at, _ := strings.Cut(strings.Trim(u.Path, "/"), "@")
	base, in, tree := strings.Cut(p, "/-/tree/") // GitLab
	if !tree {
		parts := strings.SplitN(p, "/", 4)
		if len(parts) < 2 {
			return Source{}, wrongSource(u.String())
		}
		base = parts[0] + "/" + parts[1]
		if len(parts) == 4 && (parts[2] == "tree" || parts[2] == "blob") {
			in, tree = parts[3], true
		} else if len(parts) > 2 && u.Host == "github.com" {
			return Source{}, wrongSource(u.String())
		} else if u.Host == "gitlab.com" {
			base = p // groups can be nested
		}
	}
	base = strings.TrimSuffix(base, ".git")
	ref, folder, _ := strings.Cut(in, "/")
	if !tree {
		ref, folder = at, u.Fragment
	}
	if f, ok := strings.CutSuffix(folder, "SKILL.md"); ok {
		folder = strings.TrimSuffix(f, "/")
	}
	return repository("https://"+u.Host+"/"+base, ref, folder)
}
