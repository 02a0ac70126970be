package policy

import (
	"path"
	"slices"
	"strings"
)

// starters are programs and builtins that start what their arguments name.
var starters = append([]string{"alias", "awk", "builtin", "busybox", "capsh", "choom", "chroot", "chrt", "command", "coproc", "dbus-run-session", "doas", "env", "eval",
	"exec", "expect", "fakeroot", "find", "flock", "gawk", "hash", "ionice", "ip", "linux32", "linux64", "ltrace", "mapfile", "mawk", "nice", "nohup", "nsenter", "numactl",
	"parallel", "pkexec", "prlimit", "proot", "readarray", "rlwrap", "run-parts", "runuser", "screen", "script", "setarch", "setpriv", "setsid", "sg", "source", ".", "ssh",
	"start-stop-daemon", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "time", "timeout", "tmux", "toybox", "trap", "uclampset", "unbuffer", "unshare", "valgrind",
	"watch", "xargs", "xvfb-run"}, shells...)

// shells run a text.
var shells = []string{"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"}

// starts reports whether a command starts others.
func starts(c []string) bool {
	name := path.Base(c[0])
	return slices.Contains(starters, name) || strings.HasPrefix(name, "ld-linux") || name == "ld.so"
}

// blind reports whether a command runs a text that is not in its words: a shell
// that reads standard input, or is started once for each line of it.
func blind(c []string) bool {
	if !starts(c) {
		return false
	}
	each := false
	for i, w := range c {
		name := path.Base(w)
		switch rest := c[i+1:]; {
		case name == "xargs" || name == "parallel":
			each = true
		case name == "source" || name == ".":
			if len(rest) > 0 && device(rest[0]) {
				return true
			}
		case !slices.Contains(shells, name), i > 0 && path.Base(c[0]) == "find" && !strings.HasPrefix(c[i-1], "-exec") && !strings.HasPrefix(c[i-1], "-ok"):
		case each || reads(rest):
			return true
		}
	}
	return false
}

// reads reports whether a shell with these words reads what it runs from
// standard input.
func reads(words []string) bool {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == Dynamic, w == "-", w == "-s":
			return true
		case slices.Contains([]string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}, w):
			i++ // its value
		case strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "c"):
			return false // its text is a word
		case !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "+"):
			return device(w)
		}
	}
	return true
}

// device is a file that may be standard input.
func device(p string) bool {
	p = path.Clean(p)
	return p == Dynamic || strings.HasPrefix(p, "/dev/") || strings.HasPrefix(p, "/proc/")
}

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
	case blind(c):
		return "a command that is known only when it runs"
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
