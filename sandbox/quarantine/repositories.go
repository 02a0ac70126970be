package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier/internal/gitrepos"
	"metier/sandbox"
)

const (
	// MostFolders is how many folders of a workspace are searched for repositories.
	MostFolders = 200_000
	// mostCreated is how many repositories that programs created are checked. The others are moved
	// aside.
	mostCreated = 1000
	// mostRepositories is how many repositories programs can leave in a workspace, with the user's:
	// each is protected from later programs, which takes time before each starts.
	mostRepositories = 5000
	// mostParts is how many names the paths of the repositories that programs leave may have in all.
	mostParts = 3000
	// mostReported is how many repositories that were moved aside a result names.
	mostReported = 20
	// grace is how long repositories are searched and checked after the caller canceled.
	grace = 10 * time.Second
)

// afterward returns a context for the checks after a program, which also take place if the caller
// canceled.
func afterward(ctx context.Context) (context.Context, func()) {
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return after, func() { stop(); cancel() }
}

// RepositoryID identifies the git repository in a folder, also among those that were there before. It
// is "" on systems without a backend.
func RepositoryID(dir string) string { return cmp.Or(node(filepath.Join(dir, ".git")), node(dir)) }

// created is a git repository that a program created.
type created struct {
	dir    string // slash path in the workspace
	unsafe string // why git could run a program that it names, or ""
}

// settled is what settle did with the repositories in a workspace.
type settled struct {
	kept          []string
	moved, ofUser []sandbox.Quarantined
	whole         bool // all of the workspace was searched
}

// mostRounds is how often settle searches a workspace.
const mostRounds = 4

// settle moves aside the unsafe repositories that programs created in a workspace. What was a .git is
// a bare repository under its new name, and can contain others, so they are searched again until
// nothing is left. ofProgram is that of isolate.
func settle(ctx context.Context, f *gitrepos.Finder, n noted, ofProgram func(full string) (bool, error)) (s settled, err error) {
	for round := range mostRounds {
		var found []string
		found, s.whole = f.Find(ctx, n.Workspace, MostFolders)
		kept, moved, ofUser, bad := isolate(n.Workspace, check(ctx, n.Workspace, found, n.Repositories, n.Hooks), ofProgram)
		s.kept = kept
		if round == 0 {
			s.moved, s.ofUser = moved, ofUser
		}
		if bad != nil || len(moved) == 0 {
			return s, bad
		}
	}
	return s, errors.New("the repositories that a program left in the workspace cannot all be moved aside")
}

// check checks the git repositories that programs created, among those found in a workspace. Once the
// user adds one to the main repository, git also runs in it. known are repositories that programs did
// not create. hooks are folders of hooks. If ctx ends, the others count as unsafe.
func check(ctx context.Context, workspace string, found, known, hooks []string) (out []created) {
	ours := map[string]bool{}
	for _, p := range known {
		ours[p] = true
	}
	c := gitrepos.NewCheck(workspace, hooks...)
	plain, parts := 0, 0
	for _, p := range found {
		if ours[p] {
			continue
		}
		r := created{dir: p}
		switch full := filepath.Join(workspace, filepath.FromSlash(p)); {
		case len(out) >= mostCreated:
			r.unsafe = fmt.Sprintf("it was not checked, because programs created more than %d", mostCreated)
		case len(known)+plain >= mostRepositories:
			r.unsafe = fmt.Sprintf("it was not checked, because the workspace has more than %d", mostRepositories)
		case parts+strings.Count(p, "/") >= mostParts:
			r.unsafe = "it was not checked, because the repositories that programs created are in too many folders"
		default:
			var err error
			if r.unsafe, err = c.Unsafe(ctx, full); err != nil {
				r.unsafe = "it was not checked, because the command was interrupted"
			}
		}
		if r.unsafe == "" {
			plain, parts = plain+1, parts+strings.Count(p, "/")+1
		}
		out = append(out, r)
	}
	return out
}

// isolate moves aside the .git of each unsafe repository, and the HEAD of a bare one, so that git does
// not run in it. It returns the repositories that stay. ofProgram reports whether a program created a
// path, or is nil if all are from programs. It names the first few of those that it moved, and of those
// that the user created: the last one counts the others.
func isolate(workspace string, all []created, ofProgram func(full string) (bool, error)) (kept []string, moved, ofUser []sandbox.Quarantined, err error) {
	if !slices.ContainsFunc(all, func(r created) bool { return r.unsafe != "" }) {
		for _, r := range all {
			kept = append(kept, r.dir)
		}
		return kept, nil, nil, nil
	}
	root, err := openRoot(workspace)
	if missing(err) {
		return nil, nil, nil, nil
	} else if err != nil {
		return nil, nil, nil, err
	}
	failed := 0
	for _, r := range all {
		if r.unsafe == "" {
			kept = append(kept, r.dir)
			continue
		}
		for _, name := range []string{".git", "HEAD"} { // a working tree can be bare too
			at := path.Join(r.dir, name)
			if name == "HEAD" && !gitrepos.IsBare(filepath.Join(workspace, filepath.FromSlash(r.dir))) {
				continue
			}
			q := sandbox.Quarantined{Path: at, Unsafe: r.unsafe}
			is, bad := true, error(nil)
			if ofProgram != nil {
				is, bad = ofProgram(filepath.Join(workspace, filepath.FromSlash(at)))
			}
			if bad == nil && is {
				q.To, bad = moveAside(root, at)
			}
			switch {
			case missing(bad): // another process was faster, or there is none
			case bad != nil:
				kept = append(kept, r.dir) // it is checked again
				if failed++; failed <= mostReported {
					err = errors.Join(err, bad)
				}
			case is:
				moved = report(moved, q)
			default:
				kept, ofUser = append(kept, r.dir), report(ofUser, q)
			}
		}
	}
	return kept, moved, ofUser, errors.Join(err, root.Close())
}

// report adds what happened to a repository to a list, whose last element counts those beyond the most
// that are named.
func report(list []sandbox.Quarantined, q sandbox.Quarantined) []sandbox.Quarantined {
	if len(list) < mostReported {
		return append(list, q)
	}
	list[len(list)-1].More++
	return list
}
