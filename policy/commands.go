package policy

import (
	"path"
	"slices"
	"strings"
)

// starters are programs and builtins that start what their arguments name.
var starters = []string{"alias", "ash", "awk", "bash", "builtin", "busybox", "chroot", "command", "coproc", "dash", "doas", "env", "eval", "exec",
	"find", "fish", "flock", "ionice", "ksh", "nice", "nohup", "nsenter", "parallel", "script", "setsid", "sh", "source", ".", "ssh", "stdbuf", "su",
	"sudo", "time", "timeout", "toybox", "trap", "unshare", "watch", "xargs", "zsh"}

// starts reports whether a command starts others.
func starts(c []string) bool { return slices.Contains(starters, path.Base(c[0])) }

// destructive are commands after which something is gone, each with the words
// that make it so; nil: any. It guards against accidents: what really holds is
// the sandbox.
var destructive = map[string][]string{
	"rm": nil, "rmdir": nil, "unlink": nil, "shred": nil, "srm": nil, "wipe": nil, "dd": nil, "truncate": nil, "mkfs": nil, "wipefs": nil,
	"fdisk": nil, "parted": nil, "blkdiscard": nil, "dropdb": nil,
	"find":    {"-delete"},
	"rsync":   {"--delete", "--remove-source-files"},
	"git":     {"clean", "restore", "filter-branch", "filter-repo", "expire", "drop", "clear", "--hard", "--force", "-f", "--force-with-lease", "--delete", "-D", "--mirror", "rm"},
	"kubectl": {"delete", "drain"}, "helm": {"delete", "uninstall", "rollback"}, "terraform": {"apply", "destroy"}, "tofu": {"apply", "destroy"},
	"docker": {"rm", "rmi", "prune"}, "podman": {"rm", "rmi", "prune"},
	"npm": {"publish", "unpublish", "deprecate"}, "cargo": {"publish", "yank"}, "twine": {"upload"}, "gh": {"delete"},
	"aws": {"rm", "rb", "delete", "terminate-instances"}, "gcloud": {"delete"}, "az": {"delete"},
}

// destroys says what a command may destroy, "" for nothing known. A program
// that is not known yet may be any.
func destroys(c []string) string {
	switch {
	case len(c) == 0:
		return ""
	case c[0] == Dynamic:
		return "a command that is known only when it runs"
	case !starts(c):
		return destroysAt(c)
	}
	for i := range c {
		if d := destroysAt(c[i:]); d != "" {
			return d
		}
		if i == 0 {
			continue
		}
		if c[i] == Dynamic && (slices.Contains([]string{"eval", "source", ".", "exec"}, c[0]) || c[i-1] == "-c") {
			return "a command that is known only when it runs"
		}
		for _, w := range strings.FieldsFunc(c[i], func(r rune) bool { return strings.ContainsRune(" \t\n;|&()<>'\"`$=", r) }) {
			if words, known := destructive[path.Base(w)]; known && words == nil && w != c[i] {
				return path.Base(w) + " in " + path.Base(c[0])
			}
		}
	}
	return ""
}

func destroysAt(c []string) string {
	name := path.Base(c[0])
	words, known := destructive[name]
	if strings.HasPrefix(name, "mkfs.") {
		known = true
	}
	if !known {
		return ""
	}
	if words == nil {
		return name
	}
	for _, w := range c[1:] {
		if slices.Contains(words, w) || name == "git" && strings.HasPrefix(w, "+") {
			return name + " " + w
		}
	}
	return ""
}
