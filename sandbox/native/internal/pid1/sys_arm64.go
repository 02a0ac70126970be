//go:build linux

package pid1

const (
	sysSeccomp   = 277
	sysPrlimit64 = 261
	sysStatx     = 291
)
