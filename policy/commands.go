package policy

import (
	"path"
	"slices"
	"strings"
)

// destructive lists commands that destroy data, each with the words that make
// it destructive; nil means any. It protects against accidents. The real
// protection is the sandbox.
var destructive = map[string][]string{
	"rm": nil, "rmdir": nil, "unlink": nil, "shred": nil, "srm": nil, "wipe": nil, "dd": nil, "truncate": nil, "mkfs": nil, "wipefs": nil,
	"fdisk": nil, "parted": nil, "blkdiscard": nil, "dropdb": nil,
	"find":    {"-delete"},
	"rsync":   {"--delete", "--remove-source-files"},
	"git":     {"clean", "restore", "filter-branch", "filter-repo", "expire", "drop", "clear", "--hard", "--force", "-f", "--force-with-lease", "--delete", "-D", "--mirror", "rm"},
	"kubectl": {"delete", "drain"}, "helm": {"delete", "uninstall", "rollback"}, "terraform": {"apply", "destroy"}, "tofu": {"apply", "destroy"},
	"docker": {"rm", "rmi", "prune"}, "podman": {"rm", "rmi", "prune"},
	"npm": {"publish", "unpublish", "deprecate"}, "cargo": {"publish", "yank"}, "twine": {"upload"}, "gh": {"delete"},
	"aws": {"rm", "rb", "delete", "--delete", "terminate-instances"}, "gcloud": {"delete"}, "az": {"delete"},
}

// undetermined stands for what an unknown command may destroy.
const undetermined = "a command that the text does not determine"

// destroyed returns what the commands of a request may destroy: one entry per
// destructive command, and one for commands that the text does not determine.
func destroyed(r Request) []string {
	out := slices.Clone(r.Destructive)
	for _, c := range r.started() {
		if d := destroys(c); d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// started are the commands a request may start. A tool that states commands
// and not what they start in turn leaves that unknown.
func (r Request) started() [][]string {
	if len(r.Starts) == 0 && len(r.Commands) > 0 {
		return append(slices.Clone(r.Commands), []string{Dynamic})
	}
	return r.Starts
}

// destroys returns what one command may destroy, or "" if nothing is known.
func destroys(c []string) string {
	if len(c) == 0 {
		return ""
	}
	if c[0] == Dynamic {
		return undetermined
	}
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
		if slices.ContainsFunc(words, func(listed string) bool { return means(w, listed) }) || name == "git" && destroysRefs(c, w) {
			return name + " " + w
		}
	}
	return ""
}

// means reports whether a word is a listed one: the word itself, or a long option, which may have a
// value and be abbreviated. An option of rsync or aws may go on, as --delete-after.
func means(w, listed string) bool {
	option, _, _ := strings.Cut(w, "=")
	if !strings.HasPrefix(option, "--") || len(option) < len("--d")+1 {
		return w == listed
	}
	return strings.HasPrefix(listed, option) || listed == "--delete" && strings.HasPrefix(option, listed+"-")
}

// destroysRefs reports whether a word of git replaces or removes branches: a refspec, or letters of
// options that are written together.
func destroysRefs(c []string, w string) bool {
	pushes := slices.Contains(c, "push")
	switch {
	case strings.HasPrefix(w, "+"), pushes && (strings.HasPrefix(w, ":") || w == "-d"):
		return true
	case !strings.HasPrefix(w, "-") || strings.HasPrefix(w, "--") || len(w) > 4:
		return false
	}
	joined := pushes || slices.ContainsFunc([]string{"branch", "checkout", "switch", "tag", "worktree"}, func(sub string) bool { return slices.Contains(c, sub) })
	return joined && strings.ContainsAny(w, "fD")
}
