package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/internal/plural"
)

// searched is the output of `search --json`.
type searched struct {
	Query    string        `json:"query"`
	Meant    string        `json:"meant"`    // the query with unknown words replaced, or ""
	Headings bool          `json:"headings"` // were searched too
	Total    int           `json:"total"`
	Results  []searchedRow `json:"results"`
}

type searchedRow struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Score       float64       `json:"score"`
	Path        string        `json:"path"` // host path of SKILL.md
	ID          string        `json:"id"`
	Source      string        `json:"source"`
	Tier        string        `json:"tier"`
	State       metier.Status `json:"state"`
	Kind        string        `json:"kind,omitempty"` // document: a reference of a harness
}

// The default and the maximum number of search results.
const (
	searchShown = 10
	searchMost  = 1000
)

func (a *app) searchCommand() *cobra.Command {
	var place skillLocation
	var f listFlags
	limit := searchShown
	c := &cobra.Command{Use: "search QUERY...", GroupID: "skills", Short: "Find skills by what they do",
		Long: `Search ranks the skills that 'metier list' shows with the same flags by how well
their name, description, when_to_use, tags, and headings match the query. A query
word that appears in no skill is replaced with the most similar word that does
appear in a skill, and the result reports this. Headings are searched if there are
at most 2,000 skills. References in a harness are found by name and description.`,
		Example: "  metier search fill in a pdf form\n  metier search kubernetes --limit 3 --json\n  metier search review --source project",
		Args: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, "")) == "" {
				return wrong("usage", "describe what the skill should do in a few words: metier search fill in a pdf form", "%s needs a query", nameOf(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > searchMost {
				return wrong("usage", fmt.Sprintf("use a number from 1 to %d", searchMost), "--limit %d is out of range", limit)
			}
			sh, err := a.openIndex(c.Context(), place)
			if err != nil {
				return err
			}
			doc, found, err := sh.search(c.Context(), strings.Join(args, " "), f, limit)
			if err != nil {
				return err
			}
			return a.put(doc, func() { a.showSearch(doc, found) })
		}}
	place.flags(c)
	place.servers(c)
	c.Flags().IntVar(&limit, "limit", limit, "maximum `number` of results")
	c.Flags().BoolVar(&f.all, "all", false, "also search skills that cannot be used")
	f.flags(c)
	a.completions(c)
	return c
}

func (sh *skillIndex) search(ctx context.Context, query string, f listFlags, limit int) (searched, metier.Found, error) {
	doc := searched{Query: query, Results: []searchedRow{}}
	chosen, _, err := f.choose(sh.Snapshot)
	if err != nil {
		return doc, metier.Found{}, err
	}
	may := make(map[metier.ID]bool, len(chosen))
	for _, sk := range chosen {
		may[sk.ID] = true
	}
	documents := len(f.source)+len(f.tiers)+len(f.states) == 0
	found, err := sh.Snapshot.Search(ctx, query, limit, func(sk *metier.Skill) bool {
		return may[sk.ID] || documents && sk.Head.Kind == metier.KindDocument && sk.State == metier.Loaded
	})
	if err != nil {
		return doc, found, err
	}
	doc.Total, doc.Meant, doc.Headings = found.Total, found.Meant, found.Headings
	for i, sk := range found.Skills {
		row := searchedRow{Name: sk.Name, Description: sk.Description, Score: math.Round(found.Scores[i]*1000) / 1000, Path: sk.Head.Location, ID: sk.ID.String(), Source: sk.ID.Source,
			Tier: string(sk.Tier.Or()), State: sk.State}
		if sk.Head.Kind == metier.KindDocument {
			row.Kind = string(sk.Head.Kind)
		}
		doc.Results = append(doc.Results, row)
	}
	return doc, found, nil
}

func (a *app) showSearch(doc searched, found metier.Found) {
	t := table{heads: []string{"SCORE", "NAME", "STATE", "SOURCE", "DESCRIPTION"}, right: []int{0}, width: a.columns()}
	what := "skill"
	for i, sk := range found.Skills {
		name := oneLine(sk.Name)
		if t.width > 0 {
			name = cutTo(name, max(t.width/3, 20))
		}
		state := string(sk.State)
		switch {
		case doc.Results[i].Kind != "":
			state, what = doc.Results[i].Kind, "result"
		case sk.State == metier.Loaded:
			state = "" // as it should be
		}
		text := sk.Description
		if sk.State == metier.Loaded && a.denies(sk) {
			text = a.about(nil, sk)
		}
		t.add(fmt.Sprintf("%.1f", doc.Results[i].Score), name, state, sourceOf(sk), text)
	}
	if len(found.Skills) > 0 {
		t.print(a.Out, "")
	}
	s := plural.Of(doc.Total, what)
	switch {
	case doc.Total == 0:
		s = "no skill contains any of these words; 'metier list' shows the skills"
	case doc.Total > len(doc.Results):
		s = fmt.Sprintf("the best %d of %s that contain any of these words (--limit)", len(doc.Results), s)
	case doc.Total == 1:
		s += " that contains any of these words"
	default:
		s += " that contain any of these words"
	}
	if doc.Meant != "" {
		s = fmt.Sprintf("some words appear in no skill; searched for %q instead\n", oneLine(doc.Meant)) + s
	}
	if !doc.Headings {
		s += "; headings were not searched, because there are too many skills"
	}
	fmt.Fprintln(a.Err, s)
}
