package metier

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier/internal/argschema"
	"metier/internal/bm25"
	"metier/internal/catalog"
	"metier/internal/promptescape"
	"metier/internal/termtext"
	"metier/model"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

//go:embed search_skills.md
var searchText string

//go:embed list_skills.md
var listText string

// Found is what a search gives: the best skills of Total with their scores, of
// which only the order means anything. Meant is the query as it was understood
// where words nobody uses were replaced by near ones, else "". Headings says
// that the headings of bodies were searched: they are not if there are more
// than 2,000 skills.
type Found struct {
	Total    int
	Skills   []Skill
	Scores   []float64
	Meant    string
	Headings bool
}

// The fields of a skill that are searched, with how much a word in each counts.
const (
	inName = iota
	inDescription
	inWhen
	inTags
	inHeadings
)

var fieldWeights = []float32{inName: 3, inDescription: 1.5, inWhen: 1.5, inTags: 2, inHeadings: 0.6}

const (
	maxQuery = 512 // bytes
	// headedMost is how many skills a snapshot may have for the headings of
	// their bodies to be searched. A listing reads no bodies, so each
	// costs an open and a read: for more skills it would cost more than it finds.
	headedMost = 2000
	headedRead = 64 << 10 // bytes of SKILL.md that are looked at for headings
)

// finder is the search index of a snapshot.
type finder struct {
	index  *bm25.Index
	order  []*Skill // by name, then by ID: skills, and documents of harnesses
	place  []int    // of each in the snapshot; -1 for a document
	usable []bool   // of each document, beside each other: a search may look at all of them
}

// Search ranks the skills, and the documents of harnesses, that keep allows (nil:
// those that can be used) by how well name, description, when_to_use, tags and
// headings fit the query. Equal
// scores go by name, then by ID. At most limit hits are returned. The index is
// made at the first search and kept. A query without words, or with more than
// 512 bytes, is an error of Kind Invalid.
func (n *Snapshot) Search(ctx context.Context, query string, limit int, keep func(*Skill) bool) (Found, error) {
	return n.search(ctx, query, limit, func(f *finder, i int) bool {
		if keep == nil {
			return f.usable[i]
		}
		return keep(f.order[i])
	})
}

// search is Search by place in the finder.
func (n *Snapshot) search(ctx context.Context, query string, limit int, keep func(*finder, int) bool) (Found, error) {
	bad := func(code, hint, why string) error {
		return &Error{Op: "search", Kind: Invalid, Code: code, Hint: hint, Err: errors.New(why)}
	}
	switch {
	case len(query) > maxQuery:
		return Found{}, bad("query_too_long", "use a few words that describe the task", fmt.Sprintf("the query has more than %d bytes", maxQuery))
	case !bm25.HasWord(query):
		return Found{}, bad("query_empty", "use a few words that describe the task", "the query has no words")
	}
	f, err := n.find(ctx)
	if err != nil {
		return Found{}, err
	}
	r := f.index.Search(query, limit, func(doc int) bool { return keep(f, doc) })
	out := Found{Total: r.Total, Meant: r.Meant, Headings: n.headed()}
	for _, h := range r.Hits {
		out.Skills, out.Scores = append(out.Skills, *f.order[h.Doc]), append(out.Scores, h.Score)
	}
	return out, nil
}

// entryAt is an entry and its place in the snapshot, -1 for a document.
type entryAt struct {
	sk *Skill
	at int
}

// find makes the search index once.
func (n *Snapshot) find(ctx context.Context) (*finder, error) {
	n.finding.Lock()
	defer n.finding.Unlock()
	if n.finder != nil {
		return n.finder, nil
	}
	all := make([]entryAt, 0, len(n.skills)+len(n.others))
	for i := range n.skills {
		all = append(all, entryAt{&n.skills[i], i})
	}
	for _, sk := range n.others {
		if sk.Head.Kind == KindDocument {
			all = append(all, entryAt{&sk, -1})
		}
	}
	slices.SortFunc(all, func(a, b entryAt) int {
		return cmp.Or(cmp.Compare(a.sk.Name, b.sk.Name), cmp.Compare(a.sk.ID.Source, b.sk.ID.Source), cmp.Compare(a.sk.ID.Path, b.sk.ID.Path))
	})
	f := &finder{order: make([]*Skill, len(all)), place: make([]int, len(all)), usable: make([]bool, len(all))}
	for i, e := range all {
		f.order[i], f.place[i] = e.sk, e.at
	}
	f.index = bm25.Build(len(f.order), fieldWeights, func(doc int, add func(int, string)) {
		sk := f.order[doc]
		f.usable[doc] = sk.usable()
		add(inName, sk.Name)
		if folder := sk.ID.Path[strings.LastIndexByte(sk.ID.Path, '/')+1:]; folder != sk.Name {
			add(inName, folder)
		}
		add(inDescription, sk.Description)
		add(inWhen, sk.Head.Front.WhenToUse)
		for _, t := range sk.Head.Front.Tags() {
			add(inTags, t)
		}
		if f.place[doc] >= 0 && n.headed() && sk.usable() && !sk.Head.Remote && ctx.Err() == nil { // what is elsewhere is not fetched to be found
			for _, h := range n.headings(ctx, sk) {
				add(inHeadings, h)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.finder = f
	return f, nil
}

func (n *Snapshot) headed() bool { return len(n.skills) <= headedMost }

// headings returns the headings of a skill's body, none where it cannot be
// read: an activation will say why.
func (n *Snapshot) headings(ctx context.Context, sk *Skill) []string {
	raw, _, err := n.ReadFile(ctx, *sk, "", headedRead)
	if err != nil {
		return nil
	}
	doc, _ := skillmd.Parse(raw)
	return skillmd.Headings(doc.Body)
}

// The most results of one call, and of one where none is asked for; the
// characters of each description.
const (
	resultsMost    = 50
	resultsDefault = 10
	resultDesc     = 300
)

// describedSkill is one skill in the answer of a tool.
type describedSkill struct {
	Name        string  `json:"name"`
	SkillID     string  `json:"skillId,omitempty"`
	Description string  `json:"description"`
	Location    string  `json:"location,omitempty"`
	Score       float64 `json:"score,omitempty"`
}

func (s *Session) describe(sk *Skill, score float64) describedSkill {
	most := resultDesc
	if m := s.cfg.Settings.Catalog.DescMax; m > 0 {
		most = min(most, m)
	}
	t := describedSkill{Name: termtext.Line(sk.Name), SkillID: s.shownID(sk), Description: catalog.Clamp(sk.Description, most), Score: score}
	if !s.loadable() {
		t.Location = s.location(sk)
	}
	return t
}

// matches returns a list of skills as a result. Their text is not trusted.
func (s *Session) matches(head string, skills []describedSkill, detail map[string]any) (Result, error) {
	detail["results"] = skills
	if skills == nil {
		detail["results"] = []describedSkill{}
	}
	d, err := json.Marshal(detail)
	if err != nil {
		return Result{}, err
	}
	text := head + "\n"
	for _, t := range skills {
		text += "- " + promptescape.Markdown(t.Name)
		if t.SkillID != "" {
			text += " (" + promptescape.Markdown(t.SkillID) + ")"
		}
		text += ": " + promptescape.Markdown(t.Description)
		if t.Location != "" {
			text += " → read " + promptescape.Markdown(t.Location)
		}
		text += "\n"
	}
	if s.enveloped() {
		detail["ok"] = true
		b, err := json.Marshal(detail)
		if err != nil {
			return Result{}, err
		}
		text = string(b)
	}
	r := Text(text)
	r.Detail = d
	r.Label = policy.Label{Role: policy.Context, Origin: "metier", Tier: policy.ThirdParty, Mediated: true}
	return r, nil
}

// knowing refuses calls of a model that is told of no skills.
func knowing(s *Session) (Facts, error) {
	if !s.listing().shown() {
		return Facts{}, &Error{Op: "search", Kind: Denied, Code: "skills_not_told", Err: errors.New("this session does not list skills")}
	}
	return Facts{Request: policy.Request{Effect: policy.Read}}, nil
}

// findable reports whether the model has use for a tool that finds skills.
func (s *Session) findable() bool {
	l := s.listing()
	return l.partial() || s.cfg.ToolsOnly && l.shown() && len(l.may) > 0
}

type searchArgs struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"`
}

// searchTool finds skills the catalog leaves out.
type searchTool struct{}

func (searchTool) Spec(_ context.Context, s *Session) (Spec, bool) {
	spec := Spec{Canonical: settings.ToolSearchSkills, Effect: policy.Read,
		ToolSpec: model.ToolSpec{Name: firstOf(s.cfg.Settings.Tools.Search, settings.ToolSearchSkills), Description: strings.TrimSpace(searchText)}}
	spec.Schema = argschema.Object(map[string]any{"query": argschema.Text("A few words that describe the task."), "limit": limitSchema()}, "query")
	return spec, s.findable()
}

func limitSchema() map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "maximum": resultsMost, "description": fmt.Sprintf("Maximum number of skills to return (default %d).", resultsDefault)}
}

// decodeLimited reads arguments of which one is a number of results.
func decodeLimited(raw json.RawMessage, into any, limit *int) error {
	*limit = resultsDefault
	if err := DecodeArgs(raw, into); err != nil {
		return err
	}
	if *limit < 1 || *limit > resultsMost {
		return InvalidArguments("limit is not a number from 1 to %d", resultsMost)
	}
	return nil
}

func (t searchTool) Facts(_ context.Context, s *Session, raw json.RawMessage) (Facts, error) {
	var a searchArgs
	if err := decodeLimited(raw, &a, &a.Limit); err != nil {
		return Facts{}, err
	}
	return knowing(s)
}

func (t searchTool) Invoke(ctx context.Context, x *ToolContext) (Result, error) {
	var a searchArgs
	if err := decodeLimited(x.call.Args, &a, &a.Limit); err != nil {
		return x.s.replyError(err), nil
	}
	l := x.s.listing()
	found, err := l.snap.search(ctx, a.Query, a.Limit, func(f *finder, i int) bool { return f.place[i] >= 0 && l.told[f.place[i]] })
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return x.s.replyError(err), nil
	}
	var out []describedSkill
	for i := range found.Skills {
		out = append(out, x.s.describe(&found.Skills[i], found.Scores[i]))
	}
	head := fmt.Sprintf("The best %d of %d skills that have any of these words, best first:", len(out), found.Total)
	switch found.Total {
	case 0:
		head = "No skill has any of these words. Try synonyms."
	case 1:
		head = "One skill has any of these words:"
	case len(out):
		head = fmt.Sprintf("%d skills have any of these words, best first:", found.Total)
	}
	if found.Meant != "" {
		head = "Searched for " + promptescape.Markdown(termtext.Quote(found.Meant)) + ", since no skill has some of these words. " + head
	}
	return x.s.matches(head, out, map[string]any{"query": a.Query, "meant": found.Meant, "total": found.Total})
}

type listArgs struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// pageTool lists skills page by page: by name, so that a page does not change
// when a skill is added to another.
type pageTool struct{}

func (pageTool) Spec(_ context.Context, s *Session) (Spec, bool) {
	spec := Spec{Canonical: settings.ToolListSkills, Effect: policy.Read,
		ToolSpec: model.ToolSpec{Name: firstOf(s.cfg.Settings.Tools.List, settings.ToolListSkills), Description: strings.TrimSpace(listText)}}
	spec.Schema = argschema.Object(map[string]any{"after": argschema.Text("Name after which the page starts: the last name of the previous page."), "limit": limitSchema()})
	return spec, s.findable()
}

func (pageTool) Facts(_ context.Context, s *Session, raw json.RawMessage) (Facts, error) {
	var a listArgs
	if err := decodeLimited(raw, &a, &a.Limit); err != nil {
		return Facts{}, err
	}
	return knowing(s)
}

// after is where the page behind a name begins, a name that is gone included.
func (l *listing) after(name string) int {
	if name == "" {
		return 0
	}
	next := len(l.may)
	for at, i := range slices.Backward(l.may) {
		switch shown := termtext.Line(l.snap.skills[i].Name); {
		case shown == name:
			return at + 1
		case shown > name:
			next = at
		}
	}
	return next
}

func (pageTool) Invoke(_ context.Context, x *ToolContext) (Result, error) {
	var a listArgs
	if err := decodeLimited(x.call.Args, &a, &a.Limit); err != nil {
		return x.s.replyError(err), nil
	}
	l := x.s.listing()
	left := len(l.may)
	from := l.after(a.After)
	var out []describedSkill
	for _, i := range l.may[from:min(from+a.Limit, left)] {
		out = append(out, x.s.describe(&l.snap.skills[i], 0))
	}
	head := fmt.Sprintf("Skills %d to %d of %d, by name:", from+1, from+len(out), left)
	if len(out) == 0 {
		head = fmt.Sprintf("None of the %d skills comes after that name.", left)
	} else if from+len(out) < left {
		head = fmt.Sprintf("Skills %d to %d of %d, by name; the next page starts after %s:", from+1, from+len(out), left, promptescape.Markdown(termtext.Quote(out[len(out)-1].Name)))
	}
	return x.s.matches(head, out, map[string]any{"after": a.After, "total": left})
}
