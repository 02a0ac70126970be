package record_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"metier/internal/testenv"
	"metier/record"
	"metier/record/recordtest"
)

// syncSpy counts syncs and fails them with err.
type syncSpy struct {
	record.Blobs
	n   int
	err error
}

func (s *syncSpy) Sync(context.Context) error { s.n++; return s.err }

func TestSyncFailureIsNotForgotten(t *testing.T) {
	t.Parallel()
	blobs := &syncSpy{err: errors.New("bad disk")}
	l := openLog(t, filepath.Join(t.TempDir(), "l"), &record.Options{Blobs: record.Redact(blobs)})
	head, err := l.Append(t.Context(), record.Head{}, recordtest.Entry("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(t.Context()); !errors.Is(err, blobs.err) {
		t.Errorf("the failure of the blobs is lost: %v", err)
	}
	blobs.err = nil
	if err := l.Sync(t.Context()); err != nil || blobs.n != 2 {
		t.Errorf("%v, %d syncs of the blobs", err, blobs.n)
	}
	if head, err = l.Append(t.Context(), head, recordtest.Entry("b")); err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // now the log's own sync fails
	first := l.Sync(t.Context())
	if record.CodeOf(first) != record.CodeIO {
		t.Errorf("sync: %v", first)
	}
	if _, err := l.Append(t.Context(), head, recordtest.Entry("c")); !errors.Is(err, first) {
		t.Errorf("append after a failed sync: %v", err)
	}
	if err := l.Sync(t.Context()); !errors.Is(err, first) {
		t.Errorf("sync after a failed sync: %v", err)
	}
}

// A killed process loses nothing that Append has confirmed, and never leaves a
// part of a batch.
func TestKilledProcessLosesNothingConfirmed(t *testing.T) {
	const env = "RECORD_TEST_KILLED"
	if path, ok := os.LookupEnv(env); ok {
		appendUntilKilled(t, path)
	}
	t.Parallel()
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledProcessLosesNothingConfirmed$")
		cmd.Env = append(os.Environ(), env+"="+path)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var confirmed record.Head
		sc := bufio.NewScanner(out)
		for n := 0; sc.Scan(); n++ {
			if n == 20+round {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
			// What it confirmed just before it died counts too.
			_ = json.Unmarshal(sc.Bytes(), &confirmed)
		}
		if err := cmd.Wait(); !testenv.Killed(cmd.ProcessState) {
			t.Errorf("round %d: not killed: %v", round, err)
		}
		l := openLog(t, path, nil)
		head := recordtest.Head(t, l)
		if confirmed.Seq < 60 || head.Seq < confirmed.Seq || head.Seq%3 != 0 {
			t.Errorf("confirmed %v, the log has %v (batches of three)", confirmed, head)
		}
		if r := verifyFile(t, path, nil, nil); !r.OK() || r.Head != head {
			t.Errorf("%+v", r)
		}
	}
}

func appendUntilKilled(t *testing.T, path string) {
	l := openLog(t, path, nil)
	head := record.Head{}
	for i := range 1_000_000 {
		batch := []record.Entry{recordtest.Entry(fmt.Sprint(i, "a")), recordtest.Entry(fmt.Sprint(i, "b")), recordtest.Entry(fmt.Sprint(i, "c"))}
		var err error
		if head, err = l.Append(t.Context(), head, batch...); err != nil {
			os.Exit(1)
		}
		line, _ := json.Marshal(head)
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			os.Exit(1)
		}
	}
}
