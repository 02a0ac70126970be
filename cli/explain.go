package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/install"
	"metier/internal/diagcodes"
	"metier/mcp/server"
)

// stateNone is the state of a path that is not a skill, in `explain --json`.
const stateNone = "none"

// explained is the output of `explain --json`: the active entry, and all entries.
type explained struct {
	Subject string `json:"subject"`
	explainedEntry
	Entries []explainedEntry `json:"entries"`
}

type explainedEntry struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Path       string     `json:"path"`
	Tier       string     `json:"tier"`
	State      string     `json:"state"` // of a skill, or none
	Rule       string     `json:"rule"`
	Reason     string     `json:"reason"`
	Fix        string     `json:"fix"`
	ShadowedBy *shadow    `json:"shadowedBy"`
	Model      *modelSees `json:"model"` // null: there is no skill
	MCP        *mcpSees   `json:"mcp"`   // null: the skill is not loaded
	// Provenance is where the skill was installed from; null: no installer noted it, or the note does not match metier.lock and the files.
	Provenance  *install.Provenance `json:"provenance"`
	Diagnostics []fixableFind       `json:"diagnostics"`
}

// shadow is the skill that has the name.
type shadow struct {
	ID   string `json:"id"`
	Path string `json:"path"`
	Tier string `json:"tier"`
}

// modelSees reports whether a run would show the skill to its model.
type modelSees struct {
	Listed bool   `json:"listed"`
	How    string `json:"how"`   // full, cut, name (alone), search (only), or none
	Place  string `json:"place"` // of the catalog: tool, system, none
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

// mcpSees reports whether skills/list of 'metier mcp' has the skill.
type mcpSees struct {
	Listed bool   `json:"listed"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// overMCP checks whether skills/list of 'metier mcp' has a loaded skill. It is
// nil for the skill of another server, whose files would have to be fetched.
func (sh *skillIndex) overMCP(ctx context.Context, sk metier.Skill) (*mcpSees, error) {
	if sk.State != metier.Loaded || sk.Head.Remote {
		return nil, nil
	}
	d, err := server.Unlisted(ctx, sh.Snapshot, sk, sh.Settings.Activate)
	if err != nil {
		return nil, err
	}
	if d.Code == "" {
		return &mcpSees{Listed: true}, nil
	}
	r, _ := diagcodes.Of(d.Code)
	reason := r.Why
	if d.Detail != "" {
		reason += ": " + d.Detail
	}
	return &mcpSees{Rule: d.Code, Reason: reason, Fix: r.Fix}, nil
}

type fixableFind struct {
	metier.Diagnostic
	Fix string `json:"fix"`
}

func (a *app) explainCommand() *cobra.Command {
	var place skillLocation
	c := &cobra.Command{Use: "explain NAME|PATH", GroupID: "skills", Short: "Explain a skill's state, and how to fix its problems",
		Long: `Explain covers each skill with this name, or the skill at this path. It shows
whether a run with the same flags would load the skill, the rule that decides this,
the problems that were found, and how to fix them. It also shows whether the model
would see the skill.`,
		Example: "  metier explain table-report\n  metier explain ./skills/mine\n  metier explain table-report --profile cf-harness --json", Args: oneSkill,
		RunE: func(c *cobra.Command, args []string) error {
			sh, err := a.openIndex(c.Context(), place)
			if err != nil {
				return err
			}
			doc, err := sh.explain(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.put(doc, func() {
				for i, e := range doc.Entries {
					if i > 0 {
						fmt.Fprintln(a.Out)
					}
					a.showExplained(e)
				}
			})
		}}
	place.flags(c)
	place.servers(c)
	a.completions(c)
	return c
}

// explain builds the document about a name or path.
func (sh *skillIndex) explain(ctx context.Context, subject string) (explained, error) {
	doc := explained{Subject: subject}
	found := sh.Entries(subject)
	if len(found) == 0 {
		u, err := sh.Unlisted(ctx, subject)
		if err != nil {
			return doc, err
		}
		doc.Entries = []explainedEntry{unlisted(u)}
	} else {
		cat, err := sh.Catalog(ctx)
		if err != nil {
			return doc, err
		}
		for _, sk := range found {
			e := sh.Snapshot.Explain(sk, cat, sh.Denied)
			e.Skill.Diagnostics = slices.Concat(sk.Diagnostics, sh.Snapshot.Suspicions(ctx, sk))
			entry := entryOf(e, cat)
			if entry.MCP, err = sh.overMCP(ctx, sk); err != nil {
				return doc, err
			}
			if entry.Provenance, err = engine.Provenance(ctx, sk); err != nil {
				return doc, err
			}
			doc.Entries = append(doc.Entries, entry)
		}
	}
	doc.explainedEntry = doc.Entries[0]
	return doc, nil
}

// unlisted returns the entry of a path that is not a skill of the snapshot.
func unlisted(u engine.Unlisted) explainedEntry {
	out := explainedEntry{Path: u.Path, State: stateNone, Rule: u.Rule, Reason: asFlags(u.Reason), Fix: asFlags(u.Fix), Diagnostics: []fixableFind{}}
	if u.Snapshot != nil {
		own := entryOf(u.Snapshot.Explain(u.Skill, metier.Catalog{}, nil), metier.Catalog{})
		out.Name, out.Path, out.Tier, out.Diagnostics = own.Name, own.Path, own.Tier, own.Diagnostics
	}
	return out
}

func entryOf(e metier.Explanation, cat metier.Catalog) explainedEntry {
	sk := e.Skill
	out := explainedEntry{ID: sk.ID.String(), Name: sk.Name, Path: cmp.Or(sk.Head.Location, foundAt(sk)), Tier: string(sk.Tier.Or()), State: string(e.State),
		Rule: e.Rule, Reason: e.Reason, Fix: e.Fix, Diagnostics: []fixableFind{},
		Model: &modelSees{e.Shown, howShown(e), string(cat.Place), e.ShownRule, e.ShownReason, e.ShownFix}}
	if e.State == metier.Shadowed {
		out.ShadowedBy = &shadow{e.By.ID.String(), e.By.Head.Location, string(e.By.Tier.Or())}
	}
	for _, d := range sk.Diagnostics {
		r, _ := diagcodes.Of(d.Code)
		out.Diagnostics = append(out.Diagnostics, fixableFind{d, r.Fix})
	}
	return out
}

// foundAt returns where an entry without a file was found.
func foundAt(sk metier.Skill) string {
	for _, d := range sk.Diagnostics {
		if d.Path != "" {
			return d.Path
		}
	}
	return ""
}

func (a *app) showExplained(e explainedEntry) {
	t := table{}
	line := func(name, text string) {
		if text != "" {
			t.add(name, text)
		}
	}
	switch {
	case e.State == stateNone && e.Name != "":
		fmt.Fprintf(a.Out, "%s is a skill, but no run here finds it\n", oneLine(e.Name))
		line("where", e.Path)
	case e.State == stateNone:
		fmt.Fprintf(a.Out, "%s is not a skill\n", oneLine(e.Path))
	default:
		fmt.Fprintf(a.Out, "%s is %s\n", oneLine(e.Name), e.State)
		line("where", e.Path)
		line("id", e.ID+" (tier "+e.Tier+")")
	}
	if p := e.Provenance; p != nil {
		line("from", p.String()+", installed "+p.InstalledAt.Format(time.DateOnly))
	}
	line("rule", e.Rule)
	line("why", e.Reason)
	if e.ShadowedBy != nil {
		line("by", cmp.Or(e.ShadowedBy.Path, e.ShadowedBy.ID)+" (tier "+e.ShadowedBy.Tier+")")
	}
	line("fix", e.Fix)
	if m := e.Model; m != nil {
		line("model", modelLine(*m))
		line("", m.Fix)
	}
	if m := e.MCP; m != nil && !m.Listed {
		line("mcp", "skills/list omits it ("+m.Rule+"): "+m.Reason)
		line("", m.Fix)
	}
	t.print(a.Out, "  ")
	for _, g := range e.Diagnostics {
		if g.Code == e.Rule && g.Line == 0 {
			continue // told above
		}
		where := ""
		if g.Line > 0 {
			where = fmt.Sprintf(" (line %d, column %d)", g.Line, g.Column)
		}
		fmt.Fprintf(a.Out, "  %s %s%s: %s\n", g.Severity, oneLine(g.Code), where, oneLine(g.Detail))
		if g.Fix != "" && g.Fix != e.Fix {
			fmt.Fprintf(a.Out, "    fix: %s\n", g.Fix)
		}
	}
}

// howShown returns how much of a skill the model is shown.
func howShown(e metier.Explanation) string {
	switch e.ShownRule {
	case "listed":
		return "full"
	case "listed-cut":
		return "cut"
	case "listed-by-name":
		return "name"
	case "search-only":
		return "search"
	}
	return "none"
}

func modelLine(m modelSees) string {
	switch m.How {
	case "search":
		return "finds it by search only: " + m.Reason
	case "name":
		return "sees its name, without its description: " + m.Reason
	}
	if !m.Listed {
		return "does not see it: " + m.Reason
	}
	text := "sees it " + map[string]string{"tool": "in the description of the tool that loads skills", "system": "in the system prompt"}[m.Place]
	rule, _ := diagcodes.Of(m.Rule)
	if detail, ok := strings.CutPrefix(m.Reason, rule.Why+": "); ok {
		text += "; " + detail
	}
	return text
}
