//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"testing"

	"metier/sandbox"
)

func TestWhoProgramsAre(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                     string
		euid                     int
		uids, gids, setgroups    string
		other, groups, refused   bool
		lowest, lowestG, highest int
	}{
		{"an ordinary user", 1234, "0 0 4294967295", "0 0 4294967295", "allow", false, false, false, 1234, 77, 1234},
		{"root", 0, "         0          0 4294967295\n", "0 0 4294967295\n", "allow\n", true, true, false, firstFree, firstFree, firstFree + free},
		{"root of a container", 0, "0 100000 65536", "0 100000 65536", "allow", true, true, false, 60_000, 60_000, 65_000},
		{"root of a container without groups", 0, "0 100000 65536", "0 100000 65536", "deny\n", true, false, false, 60_000, 60_000, 65_000},
		{"root in two extents", 0, "0 1000 1\n1 100000 65536", "0 1000 1\n1 100000 65536", "allow", true, true, false, 60_000, 60_000, 65_000},
		{"an ordinary user as root", 0, "0 1000 1", "0 1000 1", "deny", false, false, false, 0, 77, 0},
		{"root alone", 0, "0 0 1", "0 0 1", "deny", false, false, true, 0, 0, 0},
		{"nothing", 0, "", "", "", false, false, true, 0, 0, 0},
	}
	for _, tt := range tests {
		got, err := chooseIDs(tt.euid, 77, []byte(tt.uids), []byte(tt.gids), []byte(tt.setgroups))
		if tt.refused {
			if u, ok := errors.AsType[*sandbox.Unavailable](err); !ok || u.Missing.Primitive != "ids" {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || got.other != tt.other || got.groups != tt.groups || got.uid < tt.lowest || got.uid > tt.highest || got.gid < tt.lowestG {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

func TestPathsToShowAreChecked(t *testing.T) {
	t.Parallel()
	for p, ok := range map[string]bool{"/opt": true, "/home/me/tools": true, "/nix/store": true, "": false, "opt": false, "/opt/": false, "/opt/../etc": false,
		"/": false, "/home": false, "/root": false, "/var": false, "/run": false, "/proc": false, "/proc/1": false, "/dev/shm": false, "/tmp/x": false,
		"/etc": false, "/workspace/x": false, "/skills/x": false, "/a\x00b": false} {
		if _, err := New(&Options{Visible: []string{p}}); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
}
