//go:build linux

package pid1

const (
	sysSeccomp   = 317
	sysPrlimit64 = 302
	sysStatx     = 332
)
