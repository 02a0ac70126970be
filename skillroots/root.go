package skillroots

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"metier"
	"metier/filetool"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Root is a folder of skills. It is recorded, so that a resumed run opens the
// same ones.
type Root struct {
	Path   string      `json:"path"` // host path; "" for the embedded skills
	Tier   policy.Tier `json:"tier"`
	Label  string      `json:"label"`
	Kind   string      `json:"kind,omitempty"`
	Target string      `json:"target,omitempty"`
	// Harness reports that the folder is a harness, whose content is named by path.
	Harness bool `json:"harness,omitempty"`
	// Named roots must exist. Others may be created later.
	Named bool `json:"named,omitempty"`
	// Listed reports that it is in a folder of the operator's configuration.
	Listed bool `json:"listed,omitempty"`
	// Bound is the folder that the root must be in, after links, or "".
	Bound string              `json:"bound,omitempty"`
	Notes []metier.Diagnostic `json:"notes,omitempty"`
	// Unused reports that no skill is taken from it. The last note gives the reason.
	Unused bool `json:"unused,omitempty"`
	// Yields reports that its hidden skills give up their names to the project's.
	Yields bool `json:"yields,omitempty"`

	Agent string `json:"-"` // the agent that owns the folder, if a setting found it
	// Unreadable is set if the folder exists and this user has no access to it.
	Unreadable *metier.Error `json:"-"`
}

func (r *Root) note(severity skillmd.Severity, code, format string, args ...any) {
	r.Notes = append(r.Notes, metier.Diagnostic{Severity: severity, Code: code, Detail: fmt.Sprintf(format, args...), Path: r.Path})
}

// rootLabel names a root of an agent. The shared .agents folder has no name of
// its own.
func rootLabel(base string, of agentdirs.Agent) string {
	if of.Name == agentdirs.Shared {
		return base
	}
	return base + "-" + of.Name
}

// Place checks that a root is where the settings allow one and finds its path in
// the sandbox.
func (f Finder) Place(r *Root, set settings.Settings, workspace string, mounts []filetool.Mount) error {
	if r.Unused {
		return nil
	}
	real, err := r.Resolve()
	if err != nil || real == "" {
		return err
	}
	if r.Bound != "" && !confine.Within(r.Bound, real) {
		return &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Denied, Code: "skills_root_outside",
			Hint: "move it in, or specify the folder it leads to in the configuration", Err: fmt.Errorf("it is a link that leaves %s", r.Bound)}
	}
	for _, m := range mounts {
		src, err := confine.RealPath(m.Source)
		if err == nil && confine.Within(src, real) {
			rel, _ := filepath.Rel(src, real) // within
			r.Target = strings.TrimSuffix(m.Target+"/"+filepath.ToSlash(rel), "/.")
			return nil
		}
	}
	scope := forRoot(set, *r).Discover.RootScope
	if scope == settings.RootScopeAnywhere || scope == settings.RootScopeAllowlisted && r.Listed || confine.Within(workspace, real) {
		return nil
	}
	return &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Denied, Code: "skills_root_outside",
		Hint: "move it into the workspace, or mount it with Request.Mounts",
		Err:  fmt.Errorf("it is outside the workspace %s", workspace)}
}

// Resolve returns the folder after links. It returns "" for embedded skills and
// for a folder that does not exist and does not have to.
func (r Root) Resolve() (string, error) {
	if r.Path == "" {
		return "", nil
	}
	op, field, holds := "skills root", "Request.Roots", "a skills root is a folder that contains skill folders"
	if r.Harness {
		op, field, holds = "harness", "Request.Harnesses", "a harness is a folder that contains a HARNESS.md"
	}
	real, err := confine.RealPath(r.Path)
	if err != nil {
		if r.Named && r.Listed {
			return "", &metier.Error{Op: op, Path: r.Path, Kind: metier.NotFound, Code: "skills_root_missing",
				Hint: "create the folder, or remove it from skills: in the configuration", Err: errors.New("the configuration names this folder, but it does not exist")}
		}
		if r.Named {
			return "", &metier.Error{Op: op, Path: r.Path, Kind: metier.NotFound, Code: "skills_root_missing",
				Field: field, Hint: "specify an existing folder with " + field + "; relative paths start in the workspace", Err: errors.New("the folder does not exist")}
		}
		if errors.Is(err, fs.ErrPermission) {
			return "", r.unreadable(op, err)
		}
		return "", nil
	}
	if d, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // it may be a pipe
		d.Close()
	} else if errors.Is(err, fs.ErrPermission) {
		return "", r.unreadable(op, err)
	}
	if info, err := os.Stat(real); r.Named && err == nil && !info.IsDir() {
		return "", &metier.Error{Op: op, Path: r.Path, Kind: metier.Invalid, Code: "skills_root_not_folder",
			Field: field, Hint: holds, Err: errors.New("the path is not a folder")}
	}
	return real, nil
}

// unreadable is the error of a folder that this user has no access to. Without its skills, their
// names would be free for those of other roots.
func (r Root) unreadable(op string, err error) error {
	return &metier.Error{Op: op, Path: r.Path, Kind: metier.Denied, Code: "skills_root_unreadable",
		Hint: "make the folder and those above it readable, or leave its root out with the setting roots", Err: err}
}

// reach are the folders a link in the root may lead into: the other roots, and
// all of its project where the root was found there.
func (r Root) reach(others []string) []string {
	if r.Bound == "" {
		return others
	}
	return append(slices.Clone(others), r.Bound)
}

// Label gives every root a label of its own: stable, since IDs carry it. A
// folder that comes twice is one root; the one that counts says so.
func Label(in []Root) []Root {
	var out []Root
	taken := map[string]bool{}
	seen := map[string]int{}
	for _, r := range in {
		if real, err := confine.RealPath(r.Path); err == nil && r.Path != "" && !r.Unused {
			if i, ok := seen[real]; ok {
				out[i].note(skillmd.Advice, "root-listed-twice", "%s is the same folder; its skills are listed once, with the label %s", r.Path, out[i].Label)
				continue
			}
			seen[real] = len(out)
		}
		base := cmp.Or(r.Label, string(r.Tier), "skills")
		r.Label = base
		for n := 2; taken[r.Label]; n++ {
			r.Label = fmt.Sprintf("%s-%d", base, n)
		}
		taken[r.Label] = true
		out = append(out, r)
	}
	return out
}
