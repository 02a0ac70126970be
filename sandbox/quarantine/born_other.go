//go:build !linux

package quarantine

import (
	"os"
	"time"
)

func born(p string) (time.Time, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
