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
	"aws": {"rm", "rb", "delete", "terminate-instances"}, "gcloud": {"delete"}, "az": {"delete"},
}

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
		return "a command that the text does not determine"
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
		if slices.Contains(words, w) || name == "git" && strings.HasPrefix(w, "+") {
			return name + " " + w
		}
	}
	return ""
}
