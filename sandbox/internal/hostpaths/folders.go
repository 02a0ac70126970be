// Package hostpaths says which folders of the host programs find, read-only, in
// every sandbox that shows them any.
package hostpaths

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"metier/sandbox"
)

// Visible is what programs are built from, and nothing that is somebody's.
var Visible = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache",
	"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"}

// lives are whole folders of people and hosts; a folder in one of them may be
// shown.
var lives = []string{"/", "/etc", "/home", "/root", "/var", "/run"}

// ours are a sandbox's own, with all that is below them.
var ours = []string{"/proc", "/sys", "/dev", sandbox.ScratchDir, sandbox.WorkspaceDir, sandbox.SkillsDir}

// Check says why a folder cannot be shown beside Visible. own are further
// folders of the backend's.
func Check(p string, own ...string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is no clean absolute path to show in the sandbox", p)
	}
	if slices.Contains(lives, p) {
		return fmt.Errorf("%s cannot be shown in the sandbox; name a folder in it", p)
	}
	for _, o := range slices.Concat(ours, own) {
		if p == o || strings.HasPrefix(p, o+"/") {
			return fmt.Errorf("%s cannot be shown in the sandbox, which has a %s of its own", p, o)
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
