//go:build !linux

package quarantine

import (
	"io/fs"
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

func node(string) string { return "" } // no backend covers anything here

func changed(p string) (time.Time, error) { return born(p) }

func giveTo(*os.Root, string, fs.FileInfo) error { return nil }

func folderID(dir string) string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir // does not recognize a moved folder
}

func hasID(id, noted string) bool { return id == noted }
