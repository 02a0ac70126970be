package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"metier"
	"metier/internal/lockfile"
)

const lockName = "lock"

// holder identifies the lock's owner in the lock file.
type holder struct {
	PID   int    `json:"pid"`
	Host  string `json:"host"`
	Since string `json:"since"`
}

// takeLock locks the folder or reports who holds the lock. A reader that checks the lock holds it
// for a moment, so a busy lock is retried a few times.
func takeLock(root *os.Root, dir string, now func() time.Time) (*lockfile.Lock, error) {
	path := filepath.Join(dir, lockName)
	const tries, pause = 5, 10 * time.Millisecond
	for i := range tries {
		if i > 0 {
			time.Sleep(pause)
		}
		l, ok, err := lockfile.Try(path)
		if err != nil {
			return nil, fault("lock", path, err)
		}
		if ok {
			sign(root, l, now)
			return l, nil
		}
	}
	who := "another process is working on this run"
	if h, ok := readHolder(root); ok {
		since, _, _ := strings.Cut(strings.TrimSuffix(h.Since, "Z"), ".") // whole seconds
		who = fmt.Sprintf("process %d on %s has been working on this run since %sZ", h.PID, h.Host, since)
	}
	return nil, wrong(metier.Conflict, CodeLocked, dir,
		"wait for that process to end, or stop it, then try again; to watch the run, use 'metier runs show "+filepath.Base(dir)+"'", "%s", who)
}

// sign writes the owner into the lock file, for the message above. If that fails (a full disk, or
// Windows while the file is locked), the lock is still held.
func sign(root *os.Root, l *lockfile.Lock, now func() time.Time) {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	b, err := json.Marshal(holder{os.Getpid(), host, stamp(now())})
	if err == nil {
		_ = l.Sign(root, append(b, '\n'))
	}
}

func readHolder(root *os.Root) (holder, bool) {
	var h holder
	b, err := readRegular(root, lockName)
	return h, err == nil && json.Unmarshal(b, &h) == nil && h.PID > 0
}

// Busy reports whether a process is working on a run below root.
func Busy(root, id string) bool { return CheckID(id) == nil && held(filepath.Join(root, id)) }

// held reports whether a process has the folder open for writing.
func held(dir string) bool { return lockfile.Held(filepath.Join(dir, lockName)) }
