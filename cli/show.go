package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/internal/namedfile"
	"metier/internal/plural"
	"metier/skillmd"
)

// shownSkill is the output of `show --json`.
type shownSkill struct {
	skillRow
	Tree          string          `json:"tree"` // digest over all files
	Tools         []string        `json:"tools"`
	Compatibility string          `json:"compatibility"`
	Dependencies  []string        `json:"dependencies"` // of dependencies and metadata.dependencies
	Requires      []string        `json:"requires"`     // skills, of metadata.requires
	Frontmatter   json.RawMessage `json:"frontmatter"`
	Resources     []shownFile     `json:"resources"`
	Body          *string         `json:"body,omitempty"`
	NotSearched   string          `json:"notSearched,omitempty"` // why no run finds it here, and what includes it
}

type shownFile struct {
	Path       string              `json:"path"`
	Kind       metier.ResourceKind `json:"kind"`
	Size       int64               `json:"size"`
	Digest     string              `json:"digest"`
	Text       bool                `json:"text"`
	Executable bool                `json:"executable"`
	Runtime    string              `json:"runtime,omitempty"` // of a script: what would run it
}

func (a *app) showCommand() *cobra.Command {
	var place skillLocation
	var body bool
	c := &cobra.Command{Use: "show NAME|PATH", GroupID: "skills", Short: "Show one skill: its fields and files",
		Long: `Show prints a skill as a run with the same flags would find it, with the digest of
every file. If several skills have this name, it prints the one that a run uses;
'metier explain' lists the others. With a path, it also shows a skill in a folder
that is not searched. A skill's text cannot grant permissions.`,
		Example: "  metier show table-report\n  metier show ./skills/mine --body\n  metier show table-report --json", Args: oneSkill,
		RunE: func(c *cobra.Command, args []string) error {
			sh, err := a.openIndex(c.Context(), place)
			if err != nil {
				return err
			}
			sk, err := sh.Find(c.Context(), args[0])
			if metier.CodeOf(err) == "skill_not_found" {
				u, failed := sh.Unlisted(c.Context(), args[0])
				if failed != nil {
					return failed
				}
				if u.Snapshot != nil {
					return a.showSkill(c.Context(), u.Snapshot, u.Skill, body, asFlags(u.Reason+"; "+u.Fix))
				}
			}
			if err != nil {
				return err
			}
			return a.showSkill(c.Context(), sh.Snapshot, sk, body, "")
		}}
	place.flags(c)
	place.servers(c)
	c.Flags().BoolVar(&body, "body", false, "print only the instructions (with --json: include them)")
	a.completions(c)
	return c
}

// showSkill prints a skill. unsearched is the reason no run in this workspace finds it, or "".
func (a *app) showSkill(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, withBody bool, unsearched string) error {
	full, err := snap.Index(ctx, sk)
	switch {
	case err == nil:
		full.State = sk.State
		sk = full
	case sk.State != metier.Refused:
		return err
	}
	var body []byte
	if withBody {
		if body, err = instructions(ctx, snap, sk); err != nil {
			return err
		}
	}
	switch {
	case a.json:
		doc := shownOf(snap, sk)
		doc.NotSearched = unsearched
		if withBody {
			text := strings.ToValidUTF8(string(body), "\uFFFD")
			doc.Body = &text
		}
		return a.document(doc)
	case withBody && a.outTerminal():
		_, err = io.WriteString(a.Out, printable(strings.ToValidUTF8(string(body), "\uFFFD")))
		return err
	case withBody:
		_, err = a.Out.Write(body)
		return err
	}
	page := shownOf(snap, sk)
	page.NotSearched = unsearched
	a.showPage(page, sk)
	return nil
}

// maxShown is the maximum size of a SKILL.md that is printed. A session accepts less.
const maxShown = 16 << 20

// instructions returns the bytes below the frontmatter.
func instructions(ctx context.Context, snap *metier.Snapshot, sk metier.Skill) ([]byte, error) {
	raw, more, err := snap.ReadFile(ctx, sk, "", maxShown)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, &metier.Error{Op: "show", Skill: sk.Name, Path: sk.Head.Location, Kind: metier.LimitReached, Code: "skill_too_large",
			Hint: "open the file instead", Err: namedfile.TooLong(maxShown)}
	}
	doc, _ := skillmd.Parse(raw) // what is wrong with it is told by the snapshot
	return doc.Body, nil
}

func shownOf(snap *metier.Snapshot, sk metier.Skill) shownSkill {
	out := shownSkill{skillRow: rowOf(snap, sk), Tree: string(sk.Tree), Tools: append([]string{}, sk.Head.Front.AllowedTools...),
		Compatibility: sk.Head.Front.Compatibility, Dependencies: append([]string{}, sk.Head.Front.Dependencies...), Requires: append([]string{}, sk.Head.Front.Requires...), Frontmatter: sk.Head.Front.JSON(), Resources: []shownFile{}}
	for _, r := range sk.Resources {
		out.Resources = append(out.Resources, shownFile{r.Path, r.Kind, r.Size, string(r.Digest), r.Text, r.Exec, r.Runtime})
	}
	return out
}

func (a *app) showPage(s shownSkill, sk metier.Skill) {
	front := sk.Head.Front
	t := table{width: 0}
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			t.add(name, text)
		}
	}
	line("name", "%s", s.Name)
	line("state", "%s", stateLine(s))
	line("", "%s", s.NotSearched)
	line("description", "%s", s.Description)
	line("id", "%s", s.ID)
	line("tier", "%s", s.Tier)
	line("path", "%s", s.Path)
	line("digest", "%s", a.short(s.Digest))
	line("tree", "%s", a.short(s.Tree))
	if front.AllowedToolsDeclared {
		line("tools", "%s (declared by the skill; can only narrow permissions)", orNone(s.Tools))
	}
	line("needs", "%s", s.Compatibility)
	line("depends", "%s", strings.Join(s.Dependencies, ", "))
	line("requires", "%s", strings.Join(s.Requires, ", "))
	line("license", "%s", front.License)
	switch {
	case a.denies(sk):
		line("model", "does not see it: the operator denied this skill")
	case !sk.ModelInvocable:
		line("model", "does not see it: disable-model-invocation")
	}
	if !sk.UserInvocable {
		line("users", "cannot call it: user-invocable: false")
	}
	t.print(a.Out, "")
	a.otherFields(front)
	if len(s.Resources) > 0 {
		fmt.Fprintln(a.Out)
		files := table{heads: []string{"FILE", "KIND", "SIZE", "RUNS WITH", "DIGEST"}, right: []int{2}}
		for _, r := range s.Resources {
			files.add(r.Path, string(r.Kind), plural.Thousands(r.Size), r.Runtime, a.short(r.Digest))
		}
		files.print(a.Out, "")
	}
	if len(s.Diagnostics) > 0 {
		fmt.Fprintln(a.Out)
		a.showFindings(s.Diagnostics, "")
	}
}

func stateLine(s shownSkill) string {
	switch {
	case s.NotSearched != "":
		return "not searched here"
	case s.State == metier.Shadowed:
		return string(s.State) + " by " + s.ShadowedBy
	case s.State != metier.Loaded && s.Code != string(s.State):
		return string(s.State) + ": " + s.Code
	}
	return string(s.State)
}

// otherFields prints the frontmatter fields that have no line of their own.
func (a *app) otherFields(front skillmd.Front) {
	own := map[string]bool{"name": front.HasName, "description": front.HasDescription, "allowed-tools": true, "compatibility": front.Compatibility != "", "license": front.License != ""}
	t := table{}
	for _, f := range front.Fields {
		if own[f.Key] {
			continue
		}
		t.add(f.Key, fieldText(f.Value))
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(a.Out, "\nother fields (no effect on permissions)")
		t.print(a.Out, "  ")
	}
}

// fieldText returns a value on one line: text unchanged, anything else as JSON.
func fieldText(v skillmd.Value) string {
	if v.Kind != skillmd.List && v.Kind != skillmd.Map {
		return v.Text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b)) // for people
}

// showFindings prints diagnostics, each on one line.
func (a *app) showFindings(list []metier.Diagnostic, indent string) {
	t := table{}
	for _, d := range list {
		t.add(string(d.Severity), d.Code, onLine(d)+d.Detail)
	}
	t.print(a.Out, indent)
}
