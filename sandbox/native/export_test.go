//go:build linux && (amd64 || arm64)

package native

// Cloned is how many first processes were clones of this process.
func Cloned() int64 { return cloned.Load() }
