// Package hostpaths defines which host folders are visible, read-only, in sandboxes that show any.
package hostpaths

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"metier/sandbox"
)

// lives are folders that cannot be shown as a whole. Folders inside them can.
var lives = []string{"/", "/etc", "/home", "/root", "/var", "/run"}

// ours are folders of the sandbox itself. Nothing below them can be shown either.
var ours = []string{"/proc", "/sys", "/dev", sandbox.ScratchDir, sandbox.WorkspaceDir, sandbox.SkillsDir}

// Check returns an error if a folder cannot be shown in addition to sandbox.SystemPaths. own are
// further folders that the backend reserves.
func Check(p string, own ...string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not a clean absolute path to show in the sandbox", p)
	}
	if slices.Contains(lives, p) {
		return fmt.Errorf("%s cannot be shown in the sandbox; specify a folder in it", p)
	}
	for _, o := range slices.Concat(ours, own) {
		if p == o || strings.HasPrefix(p, o+"/") {
			return fmt.Errorf("%s cannot be shown in the sandbox, because the sandbox has its own %s", p, o)
		}
	}
	return nil
}

// Existing returns the paths of a list that exist.
func Existing(list []string) (out []string) {
	for _, p := range list {
		if _, err := os.Stat(p); err == nil {
			out = append(out, p)
		}
	}
	return out
}
