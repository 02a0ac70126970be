package record_test

import (
	"path/filepath"
	"testing"

	"metier/record"
	"metier/record/recordtest"
)

func openLog(t *testing.T, path string, o *record.Options) *record.FileLog {
	t.Helper()
	l, err := record.OpenFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func openBlobs(t *testing.T, dir string, o *record.Options) *record.FileBlobs {
	t.Helper()
	b, err := record.OpenBlobs(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestFileLog(t *testing.T) {
	t.Parallel()
	recordtest.Log(t, func(t *testing.T) record.Log {
		return openLog(t, filepath.Join(t.TempDir(), "events.jsonl"), nil)
	})
	recordtest.Reopen(t, func(t *testing.T) (record.Log, func(*testing.T) record.Log) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		l := openLog(t, path, nil)
		return l, func(t *testing.T) record.Log {
			_ = l.Close()
			return openLog(t, path, nil)
		}
	})
}

func TestMemoryLog(t *testing.T) {
	t.Parallel()
	recordtest.Log(t, func(*testing.T) record.Log { return record.NewMemory() })
}

func TestFileBlobs(t *testing.T) {
	t.Parallel()
	recordtest.Blobs(t, func(t *testing.T) record.Blobs { return openBlobs(t, t.TempDir(), nil) })
}

func TestMemoryBlobs(t *testing.T) {
	t.Parallel()
	recordtest.Blobs(t, func(*testing.T) record.Blobs { return record.NewMemory() })
}

func TestRedactedBlobs(t *testing.T) {
	t.Parallel()
	secret := record.Secret{Name: "KEY", Value: "never in any of the contents"}
	recordtest.Blobs(t, func(*testing.T) record.Blobs { return record.Redact(record.NewMemory(), secret) })
	recordtest.Blobs(t, func(t *testing.T) record.Blobs {
		return record.Redact(openBlobs(t, t.TempDir(), nil), secret)
	})
}
