package install

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier"
	"metier/internal/digest"
)

// fullCommit matches the full ID of a commit.
var fullCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Pinned reports whether the source always has the same content: it is a full commit of a repository,
// or a digest in a registry.
func (s Source) Pinned() bool {
	return s.Kind == Git && fullCommit.MatchString(s.Ref) || s.Kind == OCI && digest.Valid(s.Ref)
}

// fetchGit fetches a repository. It never checks files out: it reads the objects of the commit and
// writes the files of skills itself. So nothing that the repository contains can run or redirect a
// write: no hook, filter, attribute, submodule, or link.
func fetchGit(ctx context.Context, s Source, o FetchOptions) (*Fetched, error) {
	g, err := newRepo(ctx, s, o)
	if err != nil {
		return nil, err
	}
	commit := ""
	err = g.weighed(ctx, func(ctx context.Context) (err error) {
		commit, err = g.get(ctx, s, o.Commit)
		return err
	})
	if err != nil {
		return nil, gitFailed(s, err)
	}
	f := &Fetched{Source: s, Dir: filepath.Join(o.Dir, "files"), Commit: commit, harnesses: o.harnesses}
	if err := f.readCommit(ctx, g, o.Paths); err != nil {
		return nil, gitFailed(s, err)
	}
	return f, nil
}

// newest returns the full commit that a source names now, without fetching it.
func newest(ctx context.Context, s Source, o FetchOptions) (string, error) {
	if s.Pinned() {
		return s.Ref, nil
	}
	g, err := newRepo(ctx, s, o)
	if err != nil {
		return "", err
	}
	ref, err := g.resolve(ctx, s)
	return ref.commit, gitFailed(s, err)
}

// newRepo creates a repository for a source. A lock can contain a source that [Parse] would not
// accept.
func newRepo(ctx context.Context, s Source, o FetchOptions) (*repo, error) {
	if err := checkRepository(s); err != nil {
		return nil, err
	}
	protocols, err := protocolsOf(s.Location)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(protocols, []string{"file"}) {
		if err := o.online(s); err != nil {
			return nil, err
		}
	}
	return openRepo(ctx, filepath.Join(o.Dir, "repository.git"), protocols, o)
}

// checkRepository reports a source that git would read as something else, such as an option.
func checkRepository(s Source) error {
	if clean, err := repository(s.Location, s.Ref, s.Path); err != nil || clean != s {
		return cmp.Or(err, wrongSource(s.String()))
	}
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f }
	u, err := url.Parse(s.Location)
	switch {
	case strings.ContainsFunc(s.Location, odd) || strings.ContainsFunc(s.Ref, odd):
	case scp.MatchString(s.Location) && !strings.HasPrefix(s.Location, "-"):
		return nil
	case err != nil || !slices.Contains([]string{"file", "http", "https", "ssh"}, u.Scheme) || strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-"):
	case hasSecret(u):
		return secretSource()
	default:
		return nil
	}
	return wrongSource(s.String())
}

// protocolsOf returns the protocols that git may use for an address. The user's configuration can
// replace https by ssh, and the reverse. Only addresses of this machine may be unencrypted.
func protocolsOf(location string) ([]string, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme == "" {
		return []string{"https", "ssh"}, nil // HOST:PATH
	}
	switch ip, _ := netip.ParseAddr(u.Hostname()); {
	case u.Scheme == "file":
		return []string{"file"}, nil
	case u.Scheme == "http" && (ip.IsLoopback() || u.Hostname() == "localhost"):
		return []string{"http"}, nil
	case u.Scheme == "http":
		return nil, metier.Fieldf(metier.Denied, "Request.Source", "source_insecure", "use https or ssh", "%s is not encrypted, so anyone on the way could change the skills", location)
	}
	return []string{"https", "ssh"}, nil
}

// named is what a reference of a repository names.
type named struct {
	ref    string // its full name, or HEAD
	commit string // peeled
}

// resolve finds the branch or the tag that a source names.
func (g *repo) resolve(ctx context.Context, s Source) (named, error) {
	candidates := []string{"HEAD"}
	switch {
	case strings.HasPrefix(s.Ref, "refs/"):
		candidates = []string{s.Ref}
	case s.Ref != "":
		candidates = []string{"refs/heads/" + s.Ref, "refs/tags/" + s.Ref}
	}
	args := []string{"ls-remote", "--quiet", "--", s.Location}
	for _, c := range candidates {
		args = append(args, c, c+"^{}")
	}
	out, err := g.output(ctx, maxRefs, args...)
	if err != nil {
		return named{}, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && fullCommit.MatchString(id) {
			found[ref] = id
		}
	}
	var all []named
	for _, c := range candidates {
		if id := found[c]; id != "" {
			if peeled := found[c+"^{}"]; peeled != "" {
				id = peeled
			}
			all = append(all, named{c, id})
		}
	}
	switch {
	case len(all) == 1 || len(all) == 2 && all[0].commit == all[1].commit:
		return all[0], nil
	case len(all) == 2:
		return named{}, metier.Fieldf(metier.Invalid, "Request.Source", "git_ref_ambiguous", "use @refs/heads/"+s.Ref+" or @refs/tags/"+s.Ref, "%s is a branch and a tag", s.Ref)
	case s.Ref == "":
		return named{}, metier.Fieldf(metier.NotFound, "Request.Source", "git_ref_missing", "name a branch with @BRANCH", "the repository has no default branch, or is empty")
	}
	return named{}, metier.Fieldf(metier.NotFound, "Request.Source", "git_ref_missing", "use the name of a branch or a tag, or a full commit of 40 digits", "the repository has no branch or tag %q", s.Ref)
}

// get fetches the commit that is locked, or that the source names, and returns it.
func (g *repo) get(ctx context.Context, s Source, locked string) (string, error) {
	if locked == "" && s.Pinned() {
		locked = s.Ref
	}
	if locked != "" {
		return locked, g.getCommit(ctx, s, locked)
	}
	ref, err := g.resolve(ctx, s)
	if err != nil {
		return "", err
	}
	if err := g.format(ctx, ref.commit); err != nil {
		return "", err
	}
	if err := g.fetch(ctx, s.Location, true, ref.ref); err != nil {
		return "", err
	}
	return g.commit(ctx, "FETCH_HEAD")
}

// format replaces the repository if its IDs have another length.
func (g *repo) format(ctx context.Context, id string) error {
	if len(id) == 64 {
		return g.create(ctx, "sha256")
	}
	return nil
}

// getCommit fetches one commit. If the server does not give out single commits, it fetches all branches
// and tags.
func (g *repo) getCommit(ctx context.Context, s Source, id string) error {
	if !fullCommit.MatchString(id) {
		return metier.Errorf(metier.Invalid, "lock_invalid", "restore the lock from version control", "%q is not a full commit", id)
	}
	if err := g.format(ctx, id); err != nil {
		return err
	}
	err := g.fetch(ctx, s.Location, true, id)
	if e, ok := errors.AsType[*gitError](err); ok && e.has("unadvertised object", "not our ref", "no such remote ref", "couldn't find remote ref", "Cannot obtain needed") {
		err = g.fetch(ctx, s.Location, false, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	}
	if err != nil {
		return err
	}
	got, err := g.commit(ctx, id)
	if e, failed := errors.AsType[*gitError](err); failed && !e.has("dubious") {
		return metier.Fieldf(metier.NotFound, "Request.Source", "git_commit_missing", "use a commit that a branch or a tag still contains", "the repository has no commit %s, or its history was rewritten", id)
	}
	if err == nil && got != id {
		return metier.Fieldf(metier.NotFound, "Request.Source", "git_commit_missing", "use the commit "+got, "%s is not a commit", id)
	}
	return err
}

// fetch fetches references or a commit. Servers without a program of git cannot send part of a history.
func (g *repo) fetch(ctx context.Context, location string, shallow bool, refs ...string) error {
	args := []string{"fetch", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--progress"}
	if shallow {
		args = append(args, "--depth=1")
	}
	err := g.run(ctx, nil, nil, append(append(args, "--", location), refs...)...)
	if e, ok := errors.AsType[*gitError](err); ok && shallow && e.has("does not support shallow") {
		return g.fetch(ctx, location, false, refs...)
	}
	return err
}

// commit returns the full ID of a commit in the repository.
func (g *repo) commit(ctx context.Context, name string) (string, error) {
	out, err := g.output(ctx, maxRefs, "rev-list", "--no-walk", "--end-of-options", name+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

// failure is what a message of git means.
type failure struct {
	texts []string
	kind  metier.Kind
	code  string
	what  string
	hint  string
}

// failures are in the order in which they are tried.
var failures = []failure{
	{[]string{"host key verification failed"}, metier.Denied, "git_host_unknown", "the host key of the server is not known, or changed", "connect with ssh once, and check the key"},
	{[]string{"authentication failed", "could not read username", "could not read password", "terminal prompts disabled", "permission denied (", "returned error: 401", "returned error: 403", "access denied"},
		metier.Denied, "git_access_denied", "the repository does not exist, or git has no credentials that may read it", "check the address, and that 'git ls-remote ADDRESS' works without asking for a password"},
	{[]string{"transport '", "not allowed", "disabled in libcurl"}, metier.Denied, "git_protocol_refused", "the repository would be fetched over a protocol that is not allowed", "use an address with https, ssh, or file, and check url.*.insteadOf in your git configuration"},
	{[]string{"couldn't find remote ref", "no such remote ref"}, metier.NotFound, "git_ref_missing", "the repository has no such branch or tag", "use the name of a branch or a tag, or a full commit"},
	{[]string{"dubious ownership"}, metier.Denied, "git_owner", "the repository belongs to another user", "copy the repository, or change its owner"},
	{[]string{"ssl certificate", "certificate verify", "server certificate", "ssl peer"}, metier.Unavailable, "git_certificate", "the certificate of the server is not valid", "check the address, or set http.sslCAInfo in your git configuration"},
	{[]string{"could not resolve host", "failed to connect", "couldn't connect", "connection refused", "connection timed out", "operation timed out", "operation too slow", "network is unreachable", "no route to host", "connection reset", "could not resolve proxy", "hung up unexpectedly", "early eof"},
		metier.Unavailable, "git_unreachable", "the server cannot be reached, or the connection broke", "check the address and the network, and try again"},
	{[]string{"repository not found", "does not appear to be a git repository", "' not found", "no such file or directory", "does not exist", "returned error: 404"}, metier.NotFound, "git_repository_missing", "there is no such repository", "check the address"},
	{[]string{"fsck error", "error in object", "invalid index-pack output", "index-pack failed", "bad object", "missing blob", "missing tree"}, metier.Invalid, "git_objects_invalid", "the repository contains objects that git refuses", "ask its owner to run 'git fsck'"},
}

// gitFailed turns a failure of git into an error that names its cause and a fix.
func gitFailed(s Source, err error) error {
	e, ok := errors.AsType[*gitError](err)
	if !ok {
		return err
	}
	for _, f := range failures {
		if e.has(f.texts...) {
			return &metier.Error{Op: "fetch", Path: s.Location, Field: "Request.Source", Kind: f.kind, Code: f.code, Hint: f.hint, Err: errors.New(f.what + ": " + e.last())}
		}
	}
	return &metier.Error{Op: "fetch", Path: s.Location, Field: "Request.Source", Kind: metier.Unavailable, Code: "git_failed", Hint: "run 'git ls-remote ADDRESS' to see whether git can reach it", Err: e}
}

// secretName matches user names of addresses that are tokens.
var secretName = regexp.MustCompile(`^(gh[a-z]_|github_pat_|glpat-|ATATT|[A-Za-z0-9_-]{32,})`)

// hasSecret reports whether an address contains a password, or a token instead of a user name.
func hasSecret(u *url.URL) bool {
	_, password := u.User.Password()
	return password || slices.Contains([]string{"http", "https", "git+https"}, u.Scheme) && secretName.MatchString(u.User.Username())
}
