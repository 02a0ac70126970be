//go:build !unix

package lockfile

const direct = 0
