package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"metier/internal/testenv"
	"metier/record"
	"metier/record/recordtest"
)

// faulty writes only n bytes, then fails with err, while on is set.
type faulty struct {
	on  bool
	n   int
	err error
}

func (w *faulty) write(f *os.File, b []byte, off int64) (int, error) {
	if !w.on {
		return f.WriteAt(b, off)
	}
	n, err := f.WriteAt(b[:min(w.n, len(b))], off)
	return n, errors.Join(err, w.err)
}

func TestFailedAppendLeavesTheLogAsItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code record.Code
	}{
		"no space left":  {&os.PathError{Op: "write", Err: syscall.ENOSPC}, record.CodeDiskFull},
		"quota used up":  {syscall.EDQUOT, record.CodeDiskFull},
		"i/o error":      {syscall.EIO, record.CodeIO},
		"short write":    {nil, record.CodeIO},
		"gone read-only": {syscall.EROFS, record.CodeReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &faulty{err: c.err}
			path := filepath.Join(t.TempDir(), "events.jsonl")
			l := openLog(t, path, record.Options{}.WithWrite(w.write))
			head, err := l.Append(t.Context(), record.Head{}, recordtest.Entry("a"))
			if err != nil {
				t.Fatal(err)
			}
			before := read(t, path)
			for n := range 2 * len(before) {
				w.on, w.n = true, n
				if _, err := l.Append(t.Context(), head, recordtest.Entry("b"), recordtest.Entry("c")); record.CodeOf(err) != c.code || !strings.Contains(err.Error(), path) {
					t.Fatalf("after %d bytes: %v, want %s", n, err, c.code)
				}
				if !bytes.Equal(read(t, path), before) || recordtest.Head(t, l) != head {
					t.Fatalf("after %d bytes: the log changed", n)
				}
			}
			w.on = false
			if head, err = l.Append(t.Context(), head, recordtest.Entry("b"), recordtest.Entry("c")); err != nil || head.Seq != 3 {
				t.Fatalf("with space again: %v, %v", head, err)
			}
			if r := verifyFile(t, path, nil, nil); !r.OK() || r.Entries != 3 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestFailedPutLeavesTheBlobsAsTheyWere(t *testing.T) {
	t.Parallel()
	w := &faulty{err: syscall.ENOSPC}
	dir := t.TempDir()
	b := openBlobs(t, dir, record.Options{}.WithWrite(w.write))
	kept, err := b.Put(t.Context(), "", []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{[]byte("small"), bytes.Repeat([]byte("large"), 5000)} {
		w.on, w.n = true, 3
		if _, err := b.Put(t.Context(), "", data); record.CodeOf(err) != record.CodeDiskFull {
			t.Errorf("%v", err)
		}
		w.on = false
		r, err := b.Put(t.Context(), "", data)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []record.Ref{r, kept} {
			if _, err := b.Open(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLogWrittenByAnotherIsNotAppendedTo(t *testing.T) {
	t.Parallel()
	path, data, head := written(t, 1)
	for name, other := range map[string][]byte{"longer": append(bytes.Clone(data), "x"...), "shorter": data[:len(data)-9]} {
		write(t, path, data)
		l := openLog(t, path, nil)
		write(t, path, other)
		if _, err := l.Append(t.Context(), head, recordtest.Entry("new")); record.CodeOf(err) != record.CodeAltered {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(read(t, path), other) {
			t.Errorf("%s: the file was written", name)
		}
	}
}

func TestReadComparesWithWhatWasOpened(t *testing.T) {
	t.Parallel()
	path, data, _ := written(t, 2)
	l := openLog(t, path, nil)
	for name, c := range map[string]struct {
		data []byte
		code record.Code
	}{
		"changed": {bytes.Replace(data, []byte(`"id":"b2"`), []byte(`"id":"b3"`), 1), record.CodeAltered},
		"cut":     {data[:bytes.IndexByte(data, '\n')+1], record.CodeCut},
	} {
		write(t, path, c.data)
		var got error
		for _, err := range l.Read(t.Context(), 1) {
			got = err
		}
		if record.CodeOf(got) != c.code {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFullLogSaysSo(t *testing.T) {
	t.Parallel()
	l := openLog(t, filepath.Join(t.TempDir(), "l"), record.Options{}.WithMaxEntries(2))
	head, err := l.Append(t.Context(), record.Head{}, recordtest.Entry("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), head, recordtest.Entry("b"), recordtest.Entry("c")); record.CodeOf(err) != record.CodeTooLarge {
		t.Errorf("%v", err)
	}
	if _, err := l.Append(t.Context(), head, recordtest.Entry("b")); err != nil {
		t.Error(err)
	}
}

func TestFoldersAndLinksAreNoLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	write(t, target, nil)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Logf("no links here, only the folder is tried: %v", err)
		link = dir
	}
	for _, path := range []string{dir, link} {
		if _, err := record.OpenFile(path, nil); err == nil {
			t.Errorf("%s was opened as a log", path)
		}
		if _, err := record.OpenHeads(path, nil); err == nil {
			t.Errorf("%s was opened as heads", path)
		}
		if _, err := record.Verify(t.Context(), record.File(path), nil, nil); err == nil {
			t.Errorf("%s was verified", path)
		}
	}
	if _, err := record.OpenFile(filepath.Join(dir, "none"), &record.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// onTmpfs runs this test again with dir a new 64 KiB tmpfs, after before (a
// shell command). It reports whether the caller is that second run.
func onTmpfs(t *testing.T, name, setup string) (dir string, inside bool) {
	t.Helper()
	const env = "RECORD_TEST_TMPFS"
	if dir, ok := os.LookupEnv(env); ok {
		return dir, true
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Skip(t, fmt.Sprintf("needs unshare for a small file system of its own: %v", err))
	}
	dir = t.TempDir()
	mount := `mount -t tmpfs -o size=64k none "$` + env + `" || exit 99; cd "$` + env + `" || exit 99; ` + setup
	cmd := exec.CommandContext(t.Context(), unshare, "-Urm", "sh", "-c", mount+` exec "$0" -test.run "^`+name+`$" -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 99 || bytes.HasPrefix(out, []byte("unshare:"))) {
		testenv.Skip(t, fmt.Sprintf("needs unshare -Urm and mount for a small file system of its own: %v: %s", err, out))
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+name)) {
		t.Errorf("on the tmpfs: %v\n%s", err, out)
	}
	return "", false
}

func TestFullDisk(t *testing.T) {
	dir, inside := onTmpfs(t, "TestFullDisk", "")
	if !inside {
		return
	}
	blobs := openBlobs(t, filepath.Join(dir, "blobs"), nil)
	path := filepath.Join(dir, "events.jsonl")
	l := openLog(t, path, &record.Options{Blobs: blobs})
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, make([]byte, 16<<10))
	head, n := record.Head{}, 0
	for ; ; n++ {
		next, err := l.Append(t.Context(), head, recordtest.Entry(fmt.Sprint("a", n)), recordtest.Entry(fmt.Sprint("b", n)))
		if err != nil {
			if record.CodeOf(err) != record.CodeDiskFull || n == 0 || n > 1000 {
				t.Fatalf("append %d: %v", n, err)
			}
			break
		}
		head = next
	}
	if _, err := blobs.Put(t.Context(), "", make([]byte, 8000)); record.CodeOf(err) != record.CodeDiskFull {
		t.Errorf("put: %v", err)
	}
	if r := verifyFile(t, path, nil, nil); !r.OK() || r.Head != head {
		t.Errorf("on the full disk: %+v, want head %v", r, head)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	head, err := l.Append(t.Context(), head, recordtest.Entry("a"), recordtest.Entry("b"))
	if err != nil || head.Seq != uint64(2*n+2) {
		t.Fatalf("with space again: %v, %v", head, err)
	}
	if _, err := blobs.Put(t.Context(), "", make([]byte, 8000)); err != nil {
		t.Error(err)
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if r := verifyFile(t, path, nil, nil); !r.OK() || r.Head != head {
		t.Errorf("%+v", r)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	dir, inside := onTmpfs(t, "TestReadOnlyFolder", "printf '{\"v\":1' >events.jsonl; mkdir blobs; mount -o remount,ro . || exit 99;")
	if !inside {
		return
	}
	path := filepath.Join(dir, "events.jsonl")
	readOnly := &record.Options{ReadOnly: true}
	for _, p := range []string{path, filepath.Join(dir, "new.jsonl")} {
		if _, err := record.OpenFile(p, nil); record.CodeOf(err) != record.CodeReadOnly {
			t.Errorf("open %s: %v", p, err)
		}
	}
	l := openLog(t, path, readOnly)
	if l.Recovered() == nil {
		t.Error("the torn tail was not told")
	}
	if _, err := l.Append(t.Context(), record.Head{}, recordtest.Entry("a")); record.CodeOf(err) != record.CodeReadOnly {
		t.Errorf("append: %v", err)
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Errorf("sync: %v", err)
	}
	if _, err := record.OpenBlobs(filepath.Join(dir, "blobs"), nil); record.CodeOf(err) != record.CodeReadOnly {
		t.Errorf("blobs: %v", err)
	}
	b := openBlobs(t, filepath.Join(dir, "blobs"), readOnly)
	if _, err := b.Put(t.Context(), "", nil); record.CodeOf(err) != record.CodeReadOnly {
		t.Errorf("put: %v", err)
	}
	if _, err := record.OpenHeads(filepath.Join(dir, "heads"), nil); record.CodeOf(err) != record.CodeReadOnly {
		t.Errorf("heads: %v", err)
	}
}
