package install

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/internal/termtext"
	"metier/sandbox/group"
)

// Limits of git.
const (
	maxFetch  = 1 << 30 // bytes that a repository may have on disk
	maxRefs   = 4 << 20 // bytes of a list of references
	maxConfig = 1 << 20 // bytes of the user's configuration
	keepLines = 20      // last lines of git's messages that are kept
	lineBytes = 500     // of a line that is kept
	settle    = 5 * time.Second
	weigh     = 250 * time.Millisecond // how often a repository is measured while git fetches
)

// repo is a bare repository that was created to fetch into. Git reads no other repository, no
// configuration except what open chooses, and no working tree.
type repo struct {
	program  string
	dir      string
	env      []string
	progress func(string)
}

// hardening is configuration that always applies. Commits and trees of these fsck classes are old,
// common, and harmless: no path and no file depends on them.
var hardening = []string{
	"core.hooksPath=" + os.DevNull, "core.attributesFile=" + os.DevNull, "core.fsmonitor=false",
	"fetch.recurseSubmodules=false", "submodule.recurse=false", "transfer.bundleURI=false",
	"gc.auto=0", "maintenance.auto=false", "protocol.version=2", "http.followRedirects=initial", "credential.interactive=false",
	"fetch.fsckObjects=true", "fetch.fsck.zeroPaddedFilemode=ignore", "fetch.fsck.badTimezone=ignore", "fetch.fsck.missingSpaceBeforeDate=ignore",
	"fetch.fsck.missingNameBeforeEmail=ignore", "fetch.fsck.missingEmail=ignore", "fetch.fsck.badEmail=ignore", "fetch.fsck.gitmodulesUrl=ignore",
	"fetch.fsck.gitmodulesName=ignore", "fetch.fsck.gitmodulesPath=ignore", "fetch.fsck.gitmodulesUpdate=ignore", "fetch.fsck.gitmodulesParse=ignore",
}

// fromUser matches the variables of the user's and the machine's configuration that git needs to reach
// a private host.
var fromUser = regexp.MustCompile(`^(credential\..+|http\..+|url\..+\.insteadof|core\.sshcommand|core\.askpass|ssh\.variant)$`)

// openRepo creates a bare repository in dir. protocols are those that git may use.
func openRepo(ctx context.Context, dir string, protocols []string, o FetchOptions) (*repo, error) {
	g := &repo{dir: dir, progress: o.Progress, env: gitEnv(o.Env)}
	if g.program = gitProgram(o.Env); g.program == "" {
		return nil, metier.Errorf(metier.Unsupported, "git_missing", "install git, version 2.32 or newer, or download the repository and install from its folder", "there is no program git in PATH")
	}
	if err := g.modern(ctx); err != nil {
		return nil, err
	}
	g.env = append(g.env, "GIT_DIR="+dir)
	if err := g.create(ctx, "sha1"); err != nil {
		return nil, err
	}
	user, err := g.userConfig(ctx)
	if err != nil {
		return nil, err
	}
	g.env = append(g.env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL="+strings.Join(protocols, ":"))
	g.env = append(g.env, user...)
	return g, nil
}

// create creates the repository, or replaces an empty one.
func (g *repo) create(ctx context.Context, format string) error {
	if err := os.RemoveAll(g.dir); err != nil {
		return err
	}
	_, err := g.output(ctx, maxRefs, "init", "--quiet", "--bare", "--template=", "--object-format="+format, "--", g.dir)
	return err
}

// gitEnv returns an environment for git: without variables that change what git does, and with those
// that keep it from asking, from replacing objects, and from translating messages.
func gitEnv(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		if runtime.GOOS == "windows" {
			k = strings.ToUpper(k)
		}
		return strings.HasPrefix(k, "GIT_") || strings.HasPrefix(k, "SSH_ASKPASS") || strings.HasPrefix(k, "LC_") || k == "LANG" || k == "LANGUAGE"
	})
	return append(out, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0")
}

// gitProgram returns the path of git, or "". A relative folder in PATH could be one of a project.
func gitProgram(env []string) string {
	list := ""
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(k, "PATH") {
			list = v
		}
	}
	for _, dir := range filepath.SplitList(list) {
		if filepath.IsAbs(dir) {
			if p, err := exec.LookPath(filepath.Join(dir, "git")); err == nil {
				return p
			}
		}
	}
	return ""
}

// modern reports a version of git that would ignore the variables on which we rely.
func (g *repo) modern(ctx context.Context) error {
	out, err := g.output(ctx, maxRefs, "version")
	if err != nil {
		return err
	}
	var major, minor int
	text := strings.TrimSpace(string(out))
	if _, err := fmt.Sscanf(text, "git version %d.%d", &major, &minor); err == nil && (major > 2 || major == 2 && minor >= 32) {
		return nil
	}
	return metier.Errorf(metier.Unsupported, "git_too_old", "install git, version 2.32 or newer", "%s reports %s", g.program, termtext.Quote(text))
}

// userConfig returns variables of the environment that pass on the part of the user's configuration
// that git needs to reach a private host. They are not arguments, because they can contain secrets.
func (g *repo) userConfig(ctx context.Context) ([]string, error) {
	raw, err := g.output(ctx, maxConfig, "config", "--list", "--includes", "--show-scope", "-z")
	if err != nil {
		return nil, err
	}
	vars := []string{}
	add := func(key, value string) {
		n := len(vars) / 2
		vars = append(vars, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
	}
	add("http.lowSpeedLimit", "1") // a connection on which nothing arrives for a minute fails
	add("http.lowSpeedTime", "60")
	fields := strings.Split(string(raw), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, set := strings.Cut(fields[i+1], "\n")
		if !set {
			value = "true"
		}
		if scope := fields[i]; (scope == "system" || scope == "global") && fromUser.MatchString(key) {
			add(key, value)
		}
	}
	return append(vars, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(vars)/2)), nil
}

// gitError is a git command that failed.
type gitError struct {
	command string
	lines   []string // the last ones of its messages, safe to print
	err     error
}

func (e *gitError) Error() string {
	if len(e.lines) == 0 {
		return fmt.Sprintf("git %s: %v", e.command, e.err)
	}
	return e.last()
}

func (e *gitError) Unwrap() error { return e.err }

// last returns the line that says what failed.
func (e *gitError) last() string {
	for _, prefix := range []string{"fatal: ", "error: ", "ERROR: "} {
		for _, l := range e.lines {
			if rest, ok := strings.CutPrefix(strings.TrimPrefix(l, "remote: "), prefix); ok && !strings.HasPrefix(rest, "Could not read from remote repository") {
				return rest
			}
		}
	}
	return e.lines[len(e.lines)-1]
}

// has reports whether a message contains one of the texts.
func (e *gitError) has(texts ...string) bool {
	all := strings.ToLower(strings.Join(e.lines, "\n"))
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(all, strings.ToLower(t)) })
}

// command returns a git command that is killed with all its child processes if ctx ends.
func (g *repo) command(ctx context.Context, messages *lines, args ...string) *exec.Cmd {
	all := []string{}
	for _, kv := range hardening {
		all = append(all, "-c", kv)
	}
	cmd := exec.CommandContext(ctx, g.program, append(all, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = filepath.Dir(g.dir), g.env, messages, settle
	group.Session(cmd)
	cmd.Cancel = func() error { return group.End(cmd) }
	return cmd
}

// run runs a git command. reads, if set, reads its output; if it fails, the command is killed.
func (g *repo) run(ctx context.Context, in io.Reader, reads func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	messages := &lines{progress: g.progress}
	cmd := g.command(ctx, messages, args...)
	cmd.Stdin = in
	if reads == nil {
		reads = func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return &gitError{command: args[0], err: err}
	}
	failed := reads(out)
	if failed != nil {
		cancel(failed)
	}
	err = cmd.Wait()
	messages.flush()
	switch {
	case ctx.Err() != nil:
		group.Gone(cmd, settle)
		return context.Cause(ctx)
	case err != nil:
		return &gitError{args[0], messages.last, err}
	}
	return nil
}

// output returns what a git command prints, up to a limit.
func (g *repo) output(ctx context.Context, most int64, args ...string) ([]byte, error) {
	var b bytes.Buffer
	err := g.run(ctx, nil, func(r io.Reader) error {
		n, err := io.Copy(&b, io.LimitReader(r, most+1))
		if err == nil && n > most {
			err = metier.Errorf(metier.LimitReached, "git_output_large", "use a smaller repository", "git %s prints more than %d bytes", args[0], most)
		}
		return err
	}, args...)
	return b.Bytes(), err
}

// weighed runs f, and cancels it if the repository grows too large.
func (g *repo) weighed(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(weigh)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := g.weight(); err != nil {
					cancel(err)
				}
			}
		}
	}()
	err := f(ctx)
	cancel(nil)
	<-done
	if err == nil {
		err = g.weight()
	}
	return err
}

// weight returns an error if the repository is too large.
func (g *repo) weight() error {
	var sum int64
	_ = filepath.WalkDir(g.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // git moves and removes files meanwhile
	})
	if sum > maxFetch {
		return metier.Errorf(metier.LimitReached, "git_repository_large", "copy the skills into a smaller repository", "the repository has more than %d MiB", maxFetch>>20)
	}
	return nil
}

// lines splits the messages of git, keeps the last ones, and passes them on.
type lines struct {
	progress func(string)
	part     []byte
	last     []string
}

func (l *lines) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\n' || c == '\r' {
			l.flush()
		} else if len(l.part) < lineBytes {
			l.part = append(l.part, c)
		}
	}
	return len(p), nil
}

// flush ends a line.
func (l *lines) flush() {
	text := termtext.Line(withoutSecrets(strings.ToValidUTF8(string(l.part), "\ufffd")))
	l.part = l.part[:0]
	if text == "" {
		return
	}
	if len(l.last) == keepLines {
		l.last = l.last[1:]
	}
	l.last = append(l.last, text)
	if l.progress != nil {
		l.progress(text)
	}
}
