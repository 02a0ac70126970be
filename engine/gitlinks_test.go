package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gitEntry is one entry of a git index: its mode, name, and in version 4 how
// many bytes of the previous name are removed.
type gitEntry struct {
	mode     uint32
	name     string
	cut      byte
	extended bool
}

func gitIndex(version uint32, hash int, entries ...gitEntry) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		head := make([]byte, 42+hash)
		binary.BigEndian.PutUint32(head[24:], e.mode)
		if e.extended {
			head[len(head)-2] = 0x40
			head = append(head, 0, 0)
		}
		if version == 4 {
			b = append(append(append(append(b, head...), e.cut), e.name...), 0)
			continue
		}
		head = append(head, e.name...)
		b = append(append(b, head...), make([]byte, 8-len(head)%8)...)
	}
	b = append(append(b, "TREE\x00\x00\x00\x03abc"...), make([]byte, hash)...)
	return b
}

func TestGitlinks_OfEachVersion(t *testing.T) {
	t.Parallel()
	const file, link = 0o100644, 0o160000
	plain := []gitEntry{{mode: file, name: "a"}, {mode: link, name: "lib/one"}, {mode: file, name: "lib/s"}, {mode: link, name: "two"}, {mode: link, name: "../out"}}
	want := []string{"lib/one", "two"}
	for name, b := range map[string][]byte{
		"2": gitIndex(2, 20, plain...),
		"3": gitIndex(3, 20, append([]gitEntry{{mode: file, name: "0", extended: true}}, plain...)...),
		"4": gitIndex(4, 20, gitEntry{mode: file, name: "a"}, gitEntry{mode: link, name: "lib/one", cut: 1}, gitEntry{mode: file, name: "s", cut: 3}, gitEntry{mode: link, name: "two", cut: 5}),
	} {
		got, whole := gitlinks(b, 20)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %s: %s", name, diff)
		}
		if !whole {
			t.Errorf("version %s: not whole", name)
		}
		for cut := range b { // a truncated index is read as far as possible
			_, _ = gitlinks(b[:cut], 20)
		}
	}
}

// The size of the hashes is not in an index, and what a configuration says about it can be a name.
func TestSubmodules_OfBothHashes(t *testing.T) {
	t.Parallel()
	for _, hash := range []int{20, 32} {
		for n := 1; n < 4; n++ {
			dir := t.TempDir()
			b := gitIndex(2, hash, []gitEntry{{mode: 0o160000, name: "lib/one"}, {mode: 0o100644, name: "lib/s"}, {mode: 0o160000, name: "two"}}[:n]...)
			for name, b := range map[string][]byte{"index": b, "config": []byte("[submodule \"sha256\"]\n")} {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := submodules(dir)
			for _, want := range []string{"lib/one", "lib/one", "two"}[:n] {
				if !slices.Contains(got, want) {
					t.Errorf("hash of %d bytes, %d entries: %q, want %s", hash, n, got, want)
				}
			}
		}
	}
}

// Git at the top of a repository uses the .git of its submodules, so these are protected, even if
// the workspace is a folder of the repository.
func TestProtected_HasSubmodules(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, b := range map[string][]byte{
		".git/index":                  gitIndex(2, 20, gitEntry{mode: 0o160000, name: "pkg/sub"}),
		"pkg/sub/.git":                []byte("gitdir: ../../.git/modules/pkg/sub\n"),
		".git/modules/pkg/sub/config": []byte("[core]\n"),
		".git/modules/pkg/sub/index":  gitIndex(2, 20, gitEntry{mode: 0o160000, name: "deep"}),
	} {
		p := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(top, ".git", "modules", "pkg", "sub")
	want := []string{filepath.Join(top, "pkg", "sub", ".git"), own, filepath.Join(top, "pkg", "sub", "deep", ".git")}
	for _, dir := range []string{top, filepath.Join(top, "pkg")} {
		if diff := cmp.Diff(want, repositories(dir)); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
}

func FuzzGitlinks(f *testing.F) {
	f.Add(gitIndex(2, 20, gitEntry{mode: 0o160000, name: "a"}))
	f.Add(gitIndex(4, 20, gitEntry{mode: 0o160000, name: "a"}))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = gitlinks(b, 20) })
}
