package gvisor

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExchanged_MapsEveryIDOnce(t *testing.T) {
	t.Parallel()
	last := syscall.SysProcIDMap{ContainerID: unused + 1, HostID: unused + 1, Size: highest - unused}
	for id, want := range map[int][]syscall.SysProcIDMap{
		0: {{ContainerID: 0, HostID: unused, Size: 1}, {ContainerID: 1, HostID: 1, Size: unused - 1}, {ContainerID: unused, HostID: 0, Size: 1}, last},
		1000: {{ContainerID: 0, HostID: 0, Size: 1000}, {ContainerID: 1000, HostID: unused, Size: 1},
			{ContainerID: 1001, HostID: 1001, Size: unused - 1001}, {ContainerID: unused, HostID: 1000, Size: 1}, last},
		unused: {{ContainerID: 0, HostID: 0, Size: unused}, {ContainerID: unused, HostID: unused, Size: 1}, last},
		highest: {{ContainerID: 0, HostID: 0, Size: unused}, {ContainerID: unused, HostID: highest, Size: 1},
			{ContainerID: unused + 1, HostID: unused + 1, Size: highest - unused - 1}, {ContainerID: highest, HostID: unused, Size: 1}},
	} {
		if diff := cmp.Diff(want, exchanged(id)); diff != "" {
			t.Errorf("%d: %s", id, diff)
		}
	}
}
