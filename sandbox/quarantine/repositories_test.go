package quarantine

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/gitrepos"
	"metier/sandbox"
)

func repositories(t *testing.T, dir string, n int) (found []string) {
	t.Helper()
	for i := range n {
		found = append(found, strconv.Itoa(i))
		if err := os.MkdirAll(filepath.Join(dir, found[i], ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Programs can create many repositories. A result names some of those that were moved.
func TestIsolate_MovesRepositoriesBeyondTheMost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	found := repositories(t, dir, mostCreated+mostReported+5)
	kept, moved, _, err := isolate(dir, check(t.Context(), dir, found, nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found[:mostCreated], kept); diff != "" {
		t.Errorf("kept:\n%s", diff)
	}
	if diff := cmp.Diff(mostReported, len(moved)); diff != "" {
		t.Fatalf("named:\n%s", diff)
	}
	want := sandbox.Quarantined{Path: "1019/.git", To: "1019/.git.quarantined", Unsafe: "it was not checked, because programs created more than 1000", More: 5}
	if diff := cmp.Diff(want, moved[mostReported-1]); diff != "" {
		t.Errorf("the last one:\n%s", diff)
	}
	for _, p := range found {
		_, err := os.Lstat(filepath.Join(dir, p, ".git"))
		if n, _ := strconv.Atoi(p); (err == nil) != (n < mostCreated) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// Each repository of a workspace makes the start of later programs slower.
func TestCheck_CountsTheRepositoriesOfTheUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := make([]string, mostRepositories-1)
	want := []created{{dir: "0"}, {dir: "1", unsafe: "it was not checked, because the workspace has more than 5000"}}
	got := check(t.Context(), dir, repositories(t, dir, 2), known, nil)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(created{})); diff != "" {
		t.Error(diff)
	}
}

// Each folder on the way to a repository makes the start slower, too.
func TestCheck_CountsTheFoldersOfRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := strings.Repeat("a/", 999)
	var got []string
	for _, r := range check(t.Context(), dir, []string{deep + "1", deep + "2", deep + "3", deep + "4", "a"}, nil, nil) {
		if r.unsafe != "" {
			got = append(got, path.Base(r.dir))
		}
	}
	if diff := cmp.Diff([]string{"4", "a"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheck_TakesUncheckedRepositoriesForUnsafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := []created{{"0", "it was not checked, because the command was interrupted"}}
	if diff := cmp.Diff(want, check(ctx, dir, repositories(t, dir, 1), nil, nil), cmp.AllowUnexported(created{})); diff != "" {
		t.Error(diff)
	}
}

// Git needs the HEAD of a bare repository.
func TestIsolate_MovesTheHeadOfBareRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, p := range []string{"bare/objects", "bare/refs", "bare/hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "bare", "HEAD"), nil, 0o600), os.WriteFile(filepath.Join(dir, "bare", "hooks", "pre-receive"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, moved, _, err := isolate(dir, check(t.Context(), dir, []string{"bare"}, nil, nil), nil)
	want := []sandbox.Quarantined{{Path: "bare/HEAD", To: "bare/HEAD.quarantined", Unsafe: "it has the hook pre-receive"}}
	if diff := cmp.Diff(want, moved); diff != "" || err != nil {
		t.Errorf("%v:\n%s", err, diff)
	}
}

// An entry of a journal that does not name an item is no claim.
func TestApply_DistinguishesClaimsFromOtherPaths(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	e, err := NewJournal(t.TempDir()).register(t.Context(), noted{Workspace: ws, Items: []item{{Path: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.add(escape(filepath.Join(ws, "a\xff"))); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{"a": false, "a\xff": true, "b": false} {
		claimed, err := e.apply(item{Path: p}, func() error { return nil })
		if diff := cmp.Diff(want, claimed); diff != "" || err != nil {
			t.Errorf("%q, %v:\n%s", p, err, diff)
		}
	}
	if err := e.remove(); err != nil {
		t.Error(err)
	}
}

// What was a .git is a bare repository under its new name. Git works in none of those that it contains.
func TestRun_LeavesNoRepositoryInWhatItMovesAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const config = "[core]\n\tfsmonitor = ./x\n"
	for _, p := range []string{"r/.git", "r/.git/modules/a", "r/.git/modules/a/modules/b"} {
		for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": config, "objects/x": "", "refs/x": ""} {
			at := filepath.Join(dir, p, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := settle(t.Context(), &gitrepos.Finder{}, noted{Workspace: dir, Repositories: []string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]sandbox.Quarantined{{Path: "r/.git", To: "r/.git.quarantined", Unsafe: "it sets core.fsmonitor"}}, s.moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	found, _ := (&gitrepos.Finder{}).Find(t.Context(), dir, MostFolders)
	if diff := cmp.Diff([]string(nil), found); diff != "" {
		t.Errorf("repositories that are left (-want +got):\n%s", diff)
	}
}
