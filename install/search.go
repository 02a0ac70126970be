package install

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"metier"
	"metier/internal/termtext"
)

// Limits of a search.
const (
	maxResults     = 50
	defaultResults = 20
	maxQuery       = 512     // bytes
	maxAnswer      = 4 << 20 // bytes
)

// Origin is how the skill of a search result was installed.
type Origin string

// The origins.
const (
	FromRegistry  Origin = "registry" // from the source of the result
	FromElsewhere Origin = "manual"   // a skill with its name is installed from another source, or by hand
)

// Results is the result of a search.
type Results struct {
	Query  string   `json:"query"`
	Skills []Result `json:"skills"`
	Notes  []string `json:"-"` // results that were left out; safe to print
}

// Result is a skill that a registry offers. Its texts are untrusted.
type Result struct {
	ID          string `json:"id"`
	SkillID     string `json:"skillId"` // in its source
	Name        string `json:"name"`
	Source      string `json:"source"` // as [Parse] accepts it
	Installs    int64  `json:"installs"`
	Description string `json:"description,omitempty"`
	Installed   bool   `json:"installed"`
	Origin      Origin `json:"installedOrigin,omitempty"`
	As          string `json:"installedSkillId,omitempty"` // name of the installed skill
}

// Request returns what installs the skill of a result.
func (r Result) Request() (Request, error) {
	src, err := Parse(r.Source, "/", "")
	if err == nil && src.Local() {
		err = wrongSource(r.Source)
	}
	return Request{Source: src, Skills: []string{r.SkillID}}, err
}

// Search asks the registry at an address for skills, and tells which are installed in the store. The
// registry answers /api/search as skills.sh does. The limit is from 1 to 50; 0 means 20, and larger ones
// mean 50. Results that cannot be installed are left out, with a note.
func (s *Store) Search(ctx context.Context, registry, query string, limit int) (Results, error) {
	out := Results{Query: strings.TrimSpace(query), Skills: []Result{}}
	switch {
	case out.Query == "" || len(out.Query) > maxQuery:
		return out, metier.Errorf(metier.Invalid, "query_invalid", "use some words", "the query is empty, or has more than %d bytes", maxQuery)
	case limit < 0:
		return out, metier.Errorf(metier.Invalid, "limit_invalid", fmt.Sprintf("use a number from 1 to %d", maxResults), "the limit %d is negative", limit)
	}
	limit = min(cmp.Or(limit, defaultResults), maxResults)
	w, u, err := newWeb(registry, webOptions{})
	if err != nil {
		return out, err
	}
	defer w.close()
	u = u.JoinPath("api", "search")
	u.RawQuery = url.Values{"q": {out.Query}, "limit": {strconv.Itoa(limit)}}.Encode()
	var raw bytes.Buffer
	if _, err := w.save(ctx, u, maxAnswer, &raw); err != nil {
		return out, err
	}
	var answer struct{ Skills []json.RawMessage }
	if err := json.Unmarshal(raw.Bytes(), &answer); err != nil {
		return out, metier.Fieldf(metier.Invalid, "Request.Source", "registry_invalid", "report it to the operator of the registry", "%s did not answer with search results: %s", shown(u), jsonFault(raw.Bytes(), err))
	}
	for i, raw := range answer.Skills {
		if len(out.Skills) == limit {
			out.Notes = append(out.Notes, fmt.Sprintf("%d more results than the limit were left out", len(answer.Skills)-i))
			break
		}
		r, why := readResult(raw)
		if why != "" {
			if len(out.Notes) < maxNote {
				out.Notes = append(out.Notes, fmt.Sprintf("result %d was left out: %s", i+1, why))
			}
			continue
		}
		s.mark(&r)
		out.Skills = append(out.Skills, r)
	}
	return out, nil
}

// readResult reads a result. Unknown fields are ignored. why is the reason why it cannot be installed.
func readResult(raw json.RawMessage) (r Result, why string) {
	var in struct {
		ID, SkillID, Name, Source, Description string
		Installs                               int64
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return r, termtext.Line(cutText(strings.TrimPrefix(err.Error(), "json: ")))
	}
	r = Result{ID: in.ID, SkillID: cmp.Or(in.SkillID, in.Name), Name: cmp.Or(in.Name, in.SkillID), Source: in.Source, Installs: in.Installs, Description: in.Description}
	if err := checkName(r.SkillID); err != nil {
		return r, termtext.Line(cutText(err.Error()))
	}
	if _, err := r.Request(); err != nil {
		return r, termtext.Line(cutText(err.Error()))
	}
	return r, ""
}

// mark sets whether the skill of a result is installed.
func (s *Store) mark(r *Result) {
	req, err := r.Request()
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.lock.Skills)) {
		e := s.lock.Skills[name]
		if e.Kind == req.Source.Kind && e.Location == req.Source.Location && (name == r.SkillID || path.Base(e.Path) == r.SkillID) {
			r.Installed, r.Origin, r.As = true, FromRegistry, name
			return
		}
	}
	for _, name := range []string{r.SkillID, r.Name} {
		if checkName(name) != nil {
			continue
		}
		if _, err := s.root.Lstat(name); err == nil {
			r.Installed, r.Origin, r.As = true, FromElsewhere, name
			return
		}
	}
}
