package install

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/plural"
	"metier/internal/termtext"
)

// Limits of a commit.
const (
	maxEntries   = 500_000   // files of the folder that skills are searched in
	maxSkills    = 10_000    // its skills
	maxFiles     = 50_000    // files of its skills
	maxFileBytes = 64 << 20  // of a file of a skill
	maxBytes     = 512 << 20 // of all files of its skills
	maxDepth     = 32        // folders above a file
	maxPaths     = 64 << 20  // bytes of all paths of the folder that skills are searched in
	maxNote      = 5         // paths that a note names
)

// lfsHead begins each file of Git LFS: the file that it stands for is on another server.
const lfsHead = "version https://git-lfs.github.com/spec/v1\n"

// The modes of entries of a git tree.
const (
	modeLink   = "120000"
	modeModule = "160000"
	modeExec   = "100755"
)

// treeEntry is an entry of a git tree.
type treeEntry struct{ mode, id, path string }

// fault is an entry that keeps its skill from being installed.
type fault struct {
	path string // in the source
	err  *metier.Error
}

func (f *Fetched) fault(p, code, hint, format string, args ...any) {
	err := &metier.Error{Path: p, Kind: metier.Invalid, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
	f.faults = append(f.faults, fault{p, err})
	if strings.EqualFold(path.Base(p), "SKILL.md") { // without it, the skill is not found
		f.Notes = append(f.Notes, err.Error())
	}
}

// faultIn returns the first fault of the skill in a folder of what was fetched.
func (f *Fetched) faultIn(folder string) error {
	folder = path.Join(f.Source.Path, folder)
	for _, x := range f.faults {
		if within(x.path, folder) {
			return x.err
		}
	}
	return nil
}

// within reports whether a path is a folder, or is in it. "" and "." are the top.
func within(p, folder string) bool {
	return folder == "" || folder == "." || p == folder || strings.HasPrefix(p, folder+"/")
}

// readCommit writes the files of the commit's skills to f.Dir: those in a folder with a SKILL.md. What
// it cannot write is a fault of its skill.
func (f *Fetched) readCommit(ctx context.Context, g *repo, paths []string) error {
	entries, err := g.list(ctx, f.Commit, f.Source)
	if err != nil {
		return err
	}
	f.parts = map[string]bool{}
	for _, e := range entries {
		addParts(f.parts, e.path)
	}
	if paths != nil {
		wanted := map[string]bool{}
		for _, p := range paths {
			wanted[cmp.Or(p, ".")] = true
		}
		entries = slices.DeleteFunc(entries, func(e treeEntry) bool {
			at := e.path
			for at != "." && !wanted[at] {
				at = path.Dir(at)
			}
			return !wanted[at] && !isManifest(e.path)
		})
	}
	if entries, err = f.choose(entries); err != nil {
		return err
	}
	top := filepath.Join(f.Dir, filepath.FromSlash(f.Source.Path))
	if err := os.MkdirAll(top, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return f.write(ctx, g, root, entries)
}

// list returns the files, links, and submodules of a commit, in the folder of a source.
func (g *repo) list(ctx context.Context, commit string, s Source) ([]treeEntry, error) {
	var out []treeEntry
	prefix := ""
	if s.Path != "" {
		prefix = s.Path + "/"
	}
	tooLarge := func(format string, args ...any) error {
		return metier.Fieldf(metier.LimitReached, "Request.Source", "git_repository_large", "name a folder of the repository with #FOLDER", "%s has "+format, append([]any{s}, args...)...)
	}
	left := maxPaths
	err := g.run(ctx, nil, func(r io.Reader) error {
		in := bufio.NewReaderSize(r, 2*confine.MaxPath)
		for {
			line, err := in.ReadSlice(0)
			if err == io.EOF && len(line) == 0 {
				return nil
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				return tooLarge("a path of more than %d bytes", 2*confine.MaxPath)
			}
			if err != nil {
				return err
			}
			if left -= len(line); left < 0 {
				return tooLarge("paths of more than %d MiB", maxPaths>>20)
			}
			head, name, _ := strings.Cut(strings.TrimSuffix(string(line), "\x00"), "\t")
			fields := strings.Fields(head)
			if len(fields) != 3 {
				return fmt.Errorf("git ls-tree prints %s", termtext.Quote(head))
			}
			out = append(out, treeEntry{fields[0], fields[2], prefix + name})
			if len(out) > maxEntries {
				return tooLarge("more than %s files", plural.Thousands(maxEntries))
			}
		}
	}, "ls-tree", "-r", "-z", "--full-tree", commit+":"+s.Path)
	if e, ok := errors.AsType[*gitError](err); ok && e.has("not a valid object name", "not a tree object", "exists on disk", "does not exist in") {
		return nil, metier.Fieldf(metier.NotFound, "Request.Source", "source_missing", "name a folder of the repository with #FOLDER", "commit %s has no folder %q", commit, s.Path)
	}
	return out, err
}

// choose returns the entries that are files of skills, and notes or reports those that are not files.
func (f *Fetched) choose(entries []treeEntry) ([]treeEntry, error) {
	skills := map[string]bool{}
	for _, e := range entries {
		if f.isEntry(path.Base(e.path)) {
			skills[path.Dir(e.path)] = true
		}
	}
	if len(skills) > maxSkills {
		return nil, metier.Fieldf(metier.LimitReached, "Request.Source", "git_repository_large", "name a folder of the repository with #FOLDER", "%s has more than %s skills", f.Source, plural.Thousands(maxSkills))
	}
	var out []treeEntry
	var links, modules, ours []string
	manifests := 0
	names := foldedNames{}
	for _, e := range entries {
		in := skillOf(skills, path.Dir(e.path))
		switch {
		case in == "" && e.mode == modeLink:
			links = append(links, e.path)
		case in == "" && e.mode == modeModule:
			modules = append(modules, e.path)
		case in == "" && isManifest(e.path) && f.acceptable(e, names):
			if manifests++; manifests <= maxPlugins {
				out = append(out, e)
			}
		case in == "":
		case in == "." && within(e.path, ".github"):
			ours = append(ours, e.path)
		case f.acceptable(e, names):
			if out = append(out, e); len(out) > maxFiles {
				return nil, metier.Fieldf(metier.LimitReached, "Request.Source", "git_repository_large", "name a folder of the repository with #FOLDER", "the skills of %s have more than %s files", f.Source, plural.Thousands(maxFiles))
			}
		}
	}
	f.note(links, "%s is a link and was not followed", "%d links were not followed")
	f.note(modules, "%s is a submodule and was not fetched", "%d submodules were not fetched")
	f.note(ours, "%s belongs to the repository, not to the skill", "%d files belong to the repository, not to the skill")
	return out, nil
}

// skillOf returns the outermost folder with a skill that a folder is in, "." for the top, or "".
func skillOf(skills map[string]bool, dir string) string {
	in := ""
	for ; ; dir = path.Dir(dir) {
		if skills[dir] {
			in = dir
		}
		if dir == "." || dir == "/" {
			return in
		}
	}
}

func (f *Fetched) note(paths []string, one, many string) {
	switch n := len(paths); {
	case n == 1:
		f.Notes = append(f.Notes, fmt.Sprintf(one, termtext.Quote(paths[0])))
	case n > 1:
		some := make([]string, min(n, maxNote))
		for i := range some {
			some[i] = termtext.Quote(paths[i])
		}
		more := ""
		if n > maxNote {
			more = ", …"
		}
		f.Notes = append(f.Notes, fmt.Sprintf(many, n)+": "+strings.Join(some, ", ")+more)
	}
}

// acceptable reports whether an entry can be a file of an installed skill, and otherwise adds a fault.
func (f *Fetched) acceptable(e treeEntry, names foldedNames) bool {
	clean, err := confine.Clean(e.path)
	part := func(p string) bool { return strings.EqualFold(p, ".git") || strings.EqualFold(p, "git~1") }
	switch {
	case e.mode == modeLink:
		f.fault(e.path, "skill_file_refused", "ask the author to replace the link by its target", "the file is a symbolic link")
	case e.mode == modeModule:
		f.fault(e.path, "skill_submodule", "install the skill from the repository of the submodule, or from a folder in which you fetched it", "the skill needs a submodule")
	case err != nil || clean != e.path || !filepath.IsLocal(filepath.FromSlash(e.path)) || strings.ContainsFunc(e.path, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' }) ||
		slices.ContainsFunc(strings.Split(e.path, "/"), part):
		f.fault(e.path, "skill_file_refused", "ask the author to rename the file", "not every file system can have a file with this name")
	case strings.Count(e.path, "/") > maxDepth:
		f.fault(e.path, "skill_file_refused", "ask the author to move the file", "the file is in more than %d folders", maxDepth)
	default:
		if twin := names.add(e.path); twin != "" {
			f.fault(e.path, "skill_file_refused", "ask the author to rename one of them", "%s has the same name on some file systems", termtext.Quote(twin))
			return false
		}
		return true
	}
	return false
}

// write writes the files of skills.
func (f *Fetched) write(ctx context.Context, g *repo, root *os.Root, entries []treeEntry) error {
	var ids strings.Builder
	for _, e := range entries {
		ids.WriteString(e.id + "\n")
	}
	left := int64(maxBytes)
	return g.run(ctx, strings.NewReader(ids.String()), func(r io.Reader) error {
		in := bufio.NewReaderSize(r, 64<<10)
		for _, e := range entries {
			size, err := blobSize(in, e)
			if err != nil {
				return err
			}
			if left -= size; left < 0 {
				return metier.Fieldf(metier.LimitReached, "Request.Source", "git_repository_large", "name a folder of the repository with #FOLDER", "the skills of %s have more than %d MiB", f.Source, maxBytes>>20)
			}
			body := io.LimitReader(in, size)
			if size > maxFileBytes {
				f.fault(e.path, "skill_file_refused", "ask the author to make the file smaller", "the file has more than %d MiB", maxFileBytes>>20)
			} else if err := f.writeFile(root, e, body); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, body); err != nil {
				return err
			}
			if _, err := in.Discard(1); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch", "--buffer")
}

// blobSize reads the line that git prints before a file.
func blobSize(in *bufio.Reader, e treeEntry) (int64, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != e.id || fields[1] != "blob" {
		return 0, &metier.Error{Path: e.path, Kind: metier.Invalid, Code: "git_objects_invalid", Hint: "ask the owner of the repository to run 'git fsck'", Err: errors.New("the repository does not contain the file")}
	}
	return strconv.ParseInt(fields[2], 10, 64)
}

// writeFile writes one file.
func (f *Fetched) writeFile(root *os.Root, e treeEntry, body io.Reader) error {
	in := bufio.NewReader(body)
	if head, err := in.Peek(len(lfsHead)); err == nil && string(head) == lfsHead {
		f.fault(e.path, "skill_lfs_file", "clone the repository with Git LFS, and install from its folder", "the file is in Git LFS, and the repository has only a pointer to it")
		return nil
	}
	name := filepath.FromSlash(e.path)
	mode := fs.FileMode(0o644)
	if e.mode == modeExec {
		mode = 0o755
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
