//go:build !linux

package gitrepos

import "time"

// stamp returns "": folders are read each time.
func stamp(string) (string, time.Time) { return "", time.Time{} }
