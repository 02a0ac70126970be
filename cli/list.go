package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"metier"
	"metier/harness"
	"metier/internal/diagcodes"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/policy"
	"metier/skillmd"
	"metier/skillroots"
)

// skillRow is one skill in `list --json`. `show` and `explain` have these fields and more.
type skillRow struct {
	ID             string              `json:"id"`
	Name           string              `json:"name"`
	Description    string              `json:"description"`
	Dir            string              `json:"dir"`  // host path of the folder
	Path           string              `json:"path"` // host path of SKILL.md
	Source         string              `json:"source"`
	Tier           string              `json:"tier"`
	State          metier.Status       `json:"state"`
	Code           string              `json:"code"` // the rule that decided the state
	ShadowedBy     string              `json:"shadowedBy,omitempty"`
	Digest         string              `json:"digest"` // of SKILL.md; "" until it was read whole
	ModelInvocable bool                `json:"modelInvocable"`
	UserInvocable  bool                `json:"userInvocable"`
	Diagnostics    []metier.Diagnostic `json:"diagnostics"`
	indexEntry
}

func rowOf(snap *metier.Snapshot, sk metier.Skill) skillRow {
	r := skillRow{ID: sk.ID.String(), Name: sk.Name, Description: sk.Description, Dir: sk.Dir(), Path: sk.Head.Location, Source: sk.ID.Source,
		Tier: string(sk.Tier.Or()), State: sk.State, Code: snap.Rule(&sk), Digest: string(sk.Digest),
		ModelInvocable: sk.ModelInvocable, UserInvocable: sk.UserInvocable, Diagnostics: diagnostics(sk.Diagnostics), indexEntry: indexEntryOf(sk)}
	if sk.State == metier.Shadowed {
		r.ShadowedBy = sk.ShadowedBy.String()
	}
	return r
}

// indexEntry has the fields, in addition to those of skillRow, that clients of a skill index
// expect. Fields that the skill does not set are omitted.
type indexEntry struct {
	SkillID       string          `json:"skillId"`
	SourceType    policy.Tier     `json:"sourceType"`   // builtin, org, user or third_party
	Hash          string          `json:"hash"`         // SHA-256 of SKILL.md in bare hex; "" until it was read whole
	LastModified  string          `json:"lastModified"` // RFC 3339, of SKILL.md; "" where its source has no times
	License       string          `json:"license,omitempty"`
	Compatibility string          `json:"compatibility,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	AllowedTools  *[]string       `json:"allowedTools,omitempty"` // null: not declared; an empty list allows nothing
}

func indexEntryOf(sk metier.Skill) indexEntry {
	f := sk.Head.Front
	e := indexEntry{SkillID: sk.ID.String(), SourceType: sk.Tier.SourceType(), Hash: strings.TrimPrefix(string(sk.Digest), "sha256:"), License: f.License, Compatibility: f.Compatibility}
	if sk.Head.ModTime != 0 {
		e.LastModified = time.Unix(0, sk.Head.ModTime).UTC().Format(time.RFC3339Nano)
	}
	if len(f.Metadata) > 0 {
		e.Metadata, _ = skillmd.Value{Kind: skillmd.Map, Map: f.Metadata}.MarshalJSON() // its error is always nil
	}
	if f.AllowedToolsDeclared {
		tools := append([]string{}, f.AllowedTools...)
		e.AllowedTools = &tools
	}
	return e
}

// diagnostics returns a list that is never null in JSON.
func diagnostics(in []metier.Diagnostic) []metier.Diagnostic {
	return append([]metier.Diagnostic{}, in...)
}

// listFlags choose what `list` shows.
type listFlags struct {
	all     bool
	digests bool
	states  []string
	source  []string
	tiers   []string
	agents  []string
	verbose bool
}

// states are the states of a skill, in the order in which they are listed.
var states = []string{string(metier.Loaded), string(metier.Hidden), string(metier.Disabled), string(metier.Shadowed), string(metier.Refused)}

func (a *app) listCommand() *cobra.Command {
	var place skillLocation
	var f listFlags
	c := &cobra.Command{Use: "list", GroupID: "skills", Short: "List the skills that a run would find here",
		Long: `List shows every skill that a run with the same flags would find, sorted by name,
with its state under the current settings. Without --all, it leaves out skills
that cannot be used (shadowed, refused, or with user-invocable: false), and reports
on standard error how many it left out. In a terminal, names and descriptions are
truncated to fit the width. Piped output is not truncated.`,
		Example: "  metier list\n  metier list --all --skills-root ~/skills\n  metier list --agent cursor\n  metier list --state refused --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong("usage", "to show one skill, use 'metier show NAME'; to filter the list, use --state and --source", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if len(f.agents) > 0 {
				place.set = append(place.set, skillroots.OnlyFamilies(f.agents...)...)
			}
			sh, err := a.openIndex(c.Context(), place)
			if err != nil {
				return err
			}
			if f.verbose {
				for _, x := range sh.Scans.List {
					fmt.Fprintln(a.Err, oneLine(x.Root+": "+x.String()))
				}
			}
			others := sh.others(c.Context(), place)
			chosen, left, err := f.choose(sh.Snapshot)
			if err != nil {
				return err
			}
			if f.digests {
				if err := digested(c.Context(), sh.Snapshot, chosen); err != nil {
					return err
				}
			}
			if a.json {
				return a.documentOfSkills(sh.Snapshot, chosen, others)
			}
			a.showList(sh.Snapshot, chosen, left)
			if len(others) > 0 {
				fmt.Fprintln(a.Err, sh.othersLine(others))
			}
			return nil
		}}
	place.flags(c)
	place.servers(c)
	c.Flags().StringArrayVar(&f.agents, "agent", nil, "list the skills in the folders of this `agent` instead (repeatable)")
	c.Flags().BoolVar(&f.all, "all", false, "also show skills that cannot be used, and why")
	c.Flags().BoolVar(&f.digests, "digests", false, "with --json: include the digest of every SKILL.md, even for large files")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "print how long it took to search each root, on standard error")
	f.flags(c)
	a.completions(c)
	return c
}

// flags adds the flags that select skills by their properties.
func (f *listFlags) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.states, "state", nil, "show only skills in this `state`: "+strings.Join(states, ", ")+" (repeatable)")
	c.Flags().StringArrayVar(&f.source, "source", nil, "show only skills from this `source` or tier (repeatable)")
	c.Flags().StringArrayVar(&f.tiers, "tier", nil, "show only skills in this `tier`: "+strings.Join(tierNames(), ", ")+" (repeatable)")
}

// digested sets the digests of readable skills, which requires reading all their files. Unreadable
// skills keep an empty digest.
func digested(ctx context.Context, snap *metier.Snapshot, list []metier.Skill) error {
	for i, sk := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if full, err := snap.Index(ctx, sk); err == nil {
			list[i].Digest, list[i].Tree = full.Digest, full.Tree
		}
	}
	return nil
}

// choose returns the requested skills. It also counts, by state, those that were left out only
// because --all was not given.
func (f listFlags) choose(snap *metier.Snapshot) (chosen []metier.Skill, left map[string]int, err error) {
	for _, s := range f.states {
		if !slices.Contains(states, s) {
			return nil, nil, wrong("usage", "states: "+strings.Join(states, ", "), "--state %q is not a state", s)
		}
	}
	sources := tierNames()
	for _, m := range snap.Mounts() {
		sources = append(sources, m.Label)
	}
	for _, s := range f.source {
		if !slices.Contains(sources, s) {
			return nil, nil, wrong("usage", "sources: "+strings.Join(distinct.Of(sources), ", "), "--source %q is neither a source nor a tier", s)
		}
	}
	for _, t := range f.tiers {
		if !slices.Contains(tierNames(), t) {
			return nil, nil, wrong("usage", "tiers: "+strings.Join(tierNames(), ", "), "--tier %q is not a tier", t)
		}
	}
	left = map[string]int{}
	all := snap.All()
	chosen = all[:0] // in place: there may be many
	for _, sk := range all {
		if len(f.source) > 0 && !slices.Contains(f.source, sk.ID.Source) && !slices.Contains(f.source, string(sk.Tier.Or())) {
			continue
		}
		if len(f.tiers) > 0 && !slices.Contains(f.tiers, string(sk.Tier.Or())) {
			continue
		}
		if len(f.states) > 0 {
			if slices.Contains(f.states, string(sk.State)) {
				chosen = append(chosen, sk)
			}
			continue
		}
		switch {
		case f.all:
		case sk.State == metier.Shadowed || sk.State == metier.Refused:
			left[string(sk.State)]++
			continue
		case !sk.UserInvocable:
			left["not user-invocable"]++
			continue
		}
		chosen = append(chosen, sk)
	}
	return chosen, left, nil
}

func tierNames() []string {
	return []string{string(policy.Builtin), string(policy.Org), string(policy.Project), string(policy.User), string(policy.ThirdParty)}
}

func (a *app) showList(snap *metier.Snapshot, list []metier.Skill, left map[string]int) {
	t := table{heads: []string{"NAME", "STATE", "SOURCE", "DESCRIPTION"}, width: a.columns()}
	for _, sk := range list {
		name := oneLine(sk.Name)
		if t.width > 0 {
			name = cutTo(name, max(t.width/3, 20))
		}
		t.add(name, string(sk.State), sourceOf(sk), a.about(snap, sk))
	}
	if len(list) > 0 {
		t.print(a.Out, "")
	}
	a.noteRoots(snap)
	a.noteNames(list)
	fmt.Fprintln(a.Err, summary(snap, list, left))
}

// noteRoots reports problems with roots and with the user's decisions, and folders of a harness
// that look like skills but are not.
func (a *app) noteRoots(snap *metier.Snapshot) {
	for _, d := range snap.Diagnostics() {
		if d.Code == harness.CodeUndetected {
			fmt.Fprintf(a.Err, "note: %s: %s: %s\n", oneLine(d.Path), d.Code, oneLine(d.Detail))
		}
	}
	for _, m := range snap.Mounts() {
		for _, d := range m.Notes {
			if d.Severity != skillmd.Advice {
				fmt.Fprintf(a.Err, "note: %s: %s: %s\n", oneLine(d.Path), d.Code, oneLine(d.Detail))
			}
		}
	}
}

// noteNames reports the listed skills whose names are easily confused with others. For skills
// hidden for that reason, the row has the reason.
func (a *app) noteNames(list []metier.Skill) {
	for _, sk := range list {
		for _, d := range sk.Diagnostics {
			if diagcodes.Naming(d.Code) && sk.State == metier.Loaded {
				fmt.Fprintf(a.Err, "note: %s: %s: %s\n", oneLine(d.Path), d.Code, oneLine(d.Detail))
			}
		}
	}
}

// about returns a skill's description, or why models or users cannot use it.
func (a *app) about(snap *metier.Snapshot, sk metier.Skill) string {
	switch {
	case sk.State == metier.Loaded && a.denies(sk):
		return "(not shown to models: denied by the operator) " + sk.Description
	case sk.State == metier.Loaded && !sk.ModelInvocable:
		return "(not shown to models: disable-model-invocation) " + sk.Description
	case sk.State == metier.Loaded:
		return sk.Description
	}
	e := snap.Explain(sk, metier.Catalog{}, nil)
	if sk.State == metier.Shadowed {
		return "by " + e.By.ID.String()
	}
	for _, d := range sk.Diagnostics {
		if d.Code == e.Rule {
			return e.Rule + ": " + d.Detail
		}
	}
	return e.Reason
}

// sourceOf returns the label of a skill's root, with its tier if the label does not include it.
func sourceOf(sk metier.Skill) string {
	tier := string(sk.Tier.Or())
	if strings.HasPrefix(sk.ID.Source, tier) {
		return sk.ID.Source
	}
	return sk.ID.Source + " (" + tier + ")"
}

// summary counts what is listed and what is not, and explains how to see more.
func summary(snap *metier.Snapshot, list []metier.Skill, left map[string]int) string {
	faults := 0
	for _, sk := range list {
		if slices.ContainsFunc(sk.Diagnostics, func(d metier.Diagnostic) bool { return d.Severity != skillmd.Advice }) {
			faults++
		}
	}
	s := plural.Of(len(list), "skill")
	if len(list) == 0 {
		s = "no skills"
		if len(snap.Mounts()) == 0 {
			s += ": there is no root; specify a folder with --skills-root"
		}
	}
	if faults > 0 {
		s += fmt.Sprintf(", %d with a warning or error ('metier explain NAME')", faults)
	}
	var more []string
	for _, state := range slices.Sorted(maps.Keys(left)) {
		more = append(more, fmt.Sprintf("%d %s", left[state], state))
	}
	if len(more) > 0 {
		s += "; left out: " + strings.Join(more, ", ") + " (--all)"
	}
	return s
}

// columns returns the width of the terminal, or 0 if the output is not a terminal, so that nothing
// is cut.
func (a *app) columns() int { return a.columnsAt(a.outFile()) }

// columnsAt returns the width of a terminal, or 0 if f is nil.
func (a *app) columnsAt(f *os.File) int {
	if f == nil {
		return 0
	}
	const narrow = 40
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return max(w, narrow)
	}
	if w, err := strconv.Atoi(a.env.Get("COLUMNS")); err == nil && w > 0 {
		return max(w, narrow)
	}
	return 80
}
