package filetool

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"metier"
	"metier/internal/agentdirs"
	"metier/policy"
)

// kind is what a rule says of a folder and of all below it, until a deeper rule
// says something else.
type kind int

const (
	homeDots  kind = iota // dot-paths directly below are closed
	closed                // neither read nor written; a deeper grant opens again
	granted               // read as skill folders, never written
	protected             // never written
	skillRoot             // protected, and holds skills
	inSkills              // protected: a workspace or mount in a root of skills
	denied                // neither read nor written, whatever lies below
)

// rule binds a host path. The path is resolved when the rule is made; what it
// is now is looked up at each use, so a folder that comes later counts.
type rule struct {
	path string
	kind kind
}

// known is a rule with the identity of its folder, if that exists.
type known struct {
	rule
	folded string
	info   fs.FileInfo
}

// ruleset is what holds for one call. Folders of single skills, of which there
// may be many, are compared by their resolved path alone.
type ruleset struct {
	list    []known
	granted map[string]bool // resolved paths
	guarded map[string]bool // folded paths that are not written
}

func identify(rules []rule) []known {
	out := make([]known, 0, len(rules))
	for _, r := range rules {
		info, err := os.Stat(r.path)
		if err != nil {
			info = nil
		}
		out = append(out, known{r, fold(r.path), info})
	}
	return out
}

// is reports whether the rule is about this very path. Rules that take away
// also match twins that differ in case only; identity covers other spellings of
// the same folder (bind mounts, short names, normal forms).
func (k known) is(path, folded string, info fs.FileInfo) bool {
	if path == k.path || info != nil && k.info != nil && os.SameFile(info, k.info) {
		return true
	}
	return k.kind != granted && folded == k.folded
}

// verdict is what the rules say of a resolved path.
type verdict struct {
	read, write policy.Zone
	why         string // of a denied read
	writeWhy    string // of a denied write
	base        *base  // the innermost base, or nil
	rel         string // slash path below base
	skills      bool   // in a folder of skills
	kept        string // why a mount here or below is not written, whatever its mode
	shut        string // why a mount here or below is neither read nor written
}

func (v *verdict) deny(why string) {
	v.read, v.write, v.why, v.writeWhy = policy.ZoneDenied, policy.ZoneDenied, why, why
}

func (v *verdict) readOnly() { v.noWrite(policy.CodePathReadOnly) }

func (v *verdict) noWrite(why string) {
	if v.write != policy.ZoneDenied {
		v.write, v.writeWhy = policy.ZoneDenied, why
	}
}

// grant opens the folder p for reads. Where the workspace itself is a root of
// skills, it stays the workspace.
func (v *verdict) grant(p, real string) {
	if v.base != nil && v.rel == relTo(p, real) {
		return
	}
	v.read, v.write, v.why, v.writeWhy, v.skills = policy.ZoneSkill, policy.ZoneSkill, "", "", true
}

// keep makes a path read-only, also in a mount at or below it.
func (v *verdict) keep() {
	v.readOnly()
	v.kept = policy.CodePathReadOnly
}

// enter returns the verdict of the folder of a workspace or mount. A workspace is what the user works
// in, wherever it is. A mount gives access to no more than its path allows: a program may have chosen
// what is there.
func (v verdict) enter(b *base, rel string) verdict {
	in := verdict{read: policy.ZoneWorkspace, write: policy.ZoneWorkspace, base: b, rel: rel}
	if b.target != metier.WorkspacePath {
		in.kept, in.shut = v.kept, v.shut
	}
	switch {
	case in.shut != "":
		in.deny(in.shut)
	case in.kept != "":
		in.noWrite(in.kept)
	case !b.write:
		in.readOnly()
	}
	return in
}

// judge walks the resolved path from the top; the deepest rule that says
// something counts. Only denied is final.
func (w *Workspace) judge(real string, rules ruleset) verdict {
	v := verdict{read: policy.ZoneOutside, write: policy.ZoneOutside}
	home := false // the previous prefix is a home
	for _, p := range prefixes(real) {
		info, err := os.Lstat(p)
		if err != nil {
			info = nil
		}
		name := filepath.Base(p)
		if home && strings.HasPrefix(name, ".") {
			v.deny("home_dot_path")
		}
		w.judgeName(&v, name, p)
		for i := range w.bases {
			b := &w.bases[i]
			if p != b.host && (info == nil || !os.SameFile(info, b.info)) {
				continue
			}
			v = v.enter(b, relTo(p, real))
		}
		home = false
		folded := fold(p)
		if rules.granted[p] {
			v.grant(p, real)
		}
		if rules.guarded[folded] {
			v.readOnly()
			v.skills = true
		}
		for _, k := range rules.list {
			if !k.is(p, folded, info) {
				continue
			}
			switch k.kind {
			case homeDots:
				home = true
			case closed:
				v.deny("system_path")
			case granted:
				v.grant(p, real)
			case protected:
				v.keep()
			case skillRoot:
				v.readOnly()
				v.skills = true
			case inSkills:
				v.noWrite(policy.WhyInSkills)
			case denied:
				v.deny(policy.CodePathDenied)
				return v
			}
		}
	}
	return v
}

// agentFolders are the folders where agents keep skills, by component from the
// last to the first.
var agentFolders = func() (out [][]string) {
	for _, f := range agentdirs.ProjectFolders() {
		parts := strings.Split(f, "/")
		slices.Reverse(parts)
		out = append(out, parts)
	}
	return out
}()

// endsWith reports whether a path ends with components, the last one first.
func endsWith(at string, reversed []string) bool {
	for _, part := range reversed {
		if !twin(filepath.Base(at), part) {
			return false
		}
		at = filepath.Dir(at)
	}
	return true
}

// judgeName applies what holds for a name at any depth: .metier is metier's own,
// git obeys what is in .git and takes a folder with a HEAD for a repository, and a
// command that runs in a folder obeys the metier.yaml and the agents' skill folders
// there.
func (w *Workspace) judgeName(v *verdict, name, at string) {
	switch {
	case twin(name, ".metier"):
		v.shut = "metier_folder"
		v.deny(v.shut)
	case twin(name, ".git"):
		v.keep()
	case slices.ContainsFunc(agentFolders, func(f []string) bool { return endsWith(at, f) }):
		v.kept = policy.CodePathReadOnly
		if v.base != nil {
			v.readOnly()
		}
	case v.base == nil: // outside of the workspace
	case name == "HEAD", runtime.GOOS != "linux" && twin(name, "head"): // file systems of Linux tell cases apart
		v.readOnly()
	case twin(name, "metier.yaml"), twin(name, "metier.yml"):
		v.readOnly()
	}
}

// prefixes lists a path's ancestors from the top, and itself.
func prefixes(p string) []string {
	var out []string
	for {
		out = append(out, p)
		parent := filepath.Dir(p)
		if parent == p {
			break
		}
		p = parent
	}
	slices.Reverse(out)
	return out
}

// relTo is the slash path of full below its ancestor top; "." for top itself.
func relTo(top, full string) string {
	if rel, err := filepath.Rel(top, full); err == nil {
		return filepath.ToSlash(rel)
	}
	return "."
}

// twin reports whether some file system takes name for protected: other case,
// code points that HFS+ ignores, and for NTFS dots and spaces at the end, a
// stream after a colon and the short form NAME~1.
func twin(name, protected string) bool {
	name, _, _ = strings.Cut(name, ":")
	name = fold(strings.TrimRight(ignorable.Replace(name), ". "))
	if name == protected {
		return true
	}
	short := strings.TrimPrefix(protected, ".")
	short = short[:min(len(short), 6)]
	stem, n, ok := strings.Cut(name, "~")
	return ok && n != "" && strings.Trim(n, "0123456789") == "" && stem != "" && strings.HasPrefix(short, stem)
}

// ignorable are the code points HFS+ leaves out when it compares names.
var ignorable = strings.NewReplacer("\u200c", "", "\u200d", "", "\u200e", "", "\u200f", "", "\u202a", "", "\u202b", "", "\u202c", "",
	"\u202d", "", "\u202e", "", "\u206a", "", "\u206b", "", "\u206c", "", "\u206d", "", "\u206e", "", "\u206f", "", "\ufeff", "")

// fold maps each rune to one representative of its case orbit, so that all
// spellings that differ in case only (the Kelvin sign is a k) become equal.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return unicode.ToLower(least)
	}, s)
}
