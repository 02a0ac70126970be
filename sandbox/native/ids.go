//go:build linux && (amd64 || arm64)

package native

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"

	"metier/sandbox/native/internal/pid1"
)

// inside is the program's uid and gid in the sandbox.
const inside = pid1.Inside

// ids are the program's IDs on the host.
type ids struct {
	uid, gid int
	other    bool // differs from this process
	groups   bool // supplementary groups can be dropped
}

// By convention, IDs from here on are unassigned. Each process uses one.
const firstFree, free = 2_000_000_000, 100_000_000

// extent is a line of a uid_map: IDs in this namespace, and what they map to outside.
type extent struct{ first, outside, count uint64 }

func chooseIDs(euid, egid int, uidMap, gidMap, setgroups []byte) (ids, error) {
	self := ids{uid: euid, gid: egid}
	if euid != 0 {
		return self, nil
	}
	uid, uok := unused(extents(uidMap))
	gid, gok := unused(extents(gidMap))
	if uok && gok {
		return ids{uid, gid, true, !bytes.HasPrefix(setgroups, []byte("deny"))}, nil
	}
	// In a namespace with a single ID, the program uses that ID, as for an ordinary user. It must
	// never be root outside.
	if e := extents(uidMap); len(e) == 1 && e[0].first == 0 && e[0].outside != 0 {
		return self, nil
	}
	return ids{}, unavailable("ids", "this process is root and its user namespace has no id to spare", nil)
}

func extents(text []byte) (all []extent) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var e extent
		if n, err := fmt.Sscan(lines.Text(), &e.first, &e.outside, &e.count); err == nil && n == 3 {
			all = append(all, e)
		}
	}
	return all
}

// unused returns an unassigned ID: one from the conventional range, otherwise one near the end of
// the largest extent, below nobody (65534).
func unused(all []extent) (int, bool) {
	var largest extent
	for _, e := range all {
		if e.first <= firstFree && e.first+e.count >= firstFree+free {
			return firstFree + rand.IntN(free), true
		}
		if e.count > largest.count {
			largest = e
		}
	}
	const spare = 1000
	if largest.count < 3*spare {
		return 0, false
	}
	return int(largest.first+largest.count) - spare - rand.IntN(spare), true
}

func currentIDs() (ids, error) {
	var maps [3][]byte
	for i, name := range []string{"uid_map", "gid_map", "setgroups"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return ids{}, primitive("proc", err)
		}
		maps[i] = b
	}
	return chooseIDs(os.Geteuid(), os.Getegid(), maps[0], maps[1], maps[2])
}

// first returns the IDs of the first process.
func (i ids) first() pid1.IDs {
	return pid1.IDs{UID: i.uid, GID: i.gid, Other: i.other, Groups: i.groups}
}
