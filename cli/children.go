package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/settings"
)

// launchChild is what a child's launch holds beside that of any run.
type launchChild struct {
	Manifest     subagent.Manifest `json:"manifest"`
	Only         []string          `json:"only"` // skills it may use
	Instructions string            `json:"instructions,omitempty"`
	Browser      bool              `json:"browser,omitempty"` // its scripts on the host need the lent one
}

// children runs the children of a job, in this process: each with a session,
// a record and grants of its own.
type children struct {
	parent *job
	mu     sync.Mutex // one folder is made at a time, so that the count holds
}

// Run begins a child or goes on with it.
func (c *children) Run(ctx context.Context, ch subagent.Child) (o subagent.Outcome, err error) {
	folder, err := c.open(ctx, ch.ID)
	if err != nil {
		return o, err
	}
	k := &job{}
	defer func() {
		if k.folder == nil {
			err = errors.Join(err, folder.Close())
		}
		err = closed(k.close(context.WithoutCancel(ctx)), err)
	}()
	switch past, err := readPast(ctx, folder); {
	case err == nil && past.ended:
		return outcomeOf(ctx, folder) // it ended before its parent could say so
	case err != nil && metier.CodeOf(err) != "run_not_begun":
		return o, err
	}
	child, err := c.job(ctx, ch)
	if err != nil {
		return o, err
	}
	k = child
	if err := c.enter(ctx, k, folder); err != nil {
		return o, err
	}
	if err := k.answer(ctx, ch.Answers); err != nil {
		return o, err
	}
	out, err := k.drive(ctx, c.parent.watch.child(ch.ID, ch.Profile.Name))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return o, err
	}
	if out.Status == "parked" {
		return subagent.Outcome{Ask: firstAsk(k.session.State().Calls)}, nil
	}
	if err := folder.Project(ctx); err != nil {
		return o, err
	}
	return outcomeOf(ctx, folder)
}

// open opens the folder of a child, or makes it where there may be one more.
func (c *children) open(_ context.Context, id string) (*run.Folder, error) {
	j := c.parent
	root, o := j.folder.Children(), j.a.runOptions()
	o.Witnessed = !j.trusted
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := os.Lstat(filepath.Join(root, id)); err == nil {
		return run.Open(root, id, o)
	}
	there, err := os.ReadDir(root)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if most := j.launch.Subagents.Total; len(there) >= most {
		return nil, &metier.Error{Op: "delegate", Kind: metier.LimitReached, Code: "subagent_limit", Hint: "do the rest yourself",
			Err: fmt.Errorf("this run had %d helpers, and may have no more", most)}
	}
	return run.Create(root, id, o)
}

// job is a child's run: its parent's place and its profile's grants.
func (c *children) job(ctx context.Context, ch subagent.Child) (*job, error) {
	j, p := c.parent, ch.Profile
	l := j.launch
	left, err := j.tokensLeft(ctx)
	if err != nil {
		return nil, err
	}
	if p.MaxTokens > 0 && (left == 0 || p.MaxTokens < left) {
		left = p.MaxTokens
	}
	subs := *l.Subagents
	subs.At++
	l.Subagents, l.MCP, l.Sources, l.resumed = &subs, nil, j.launch.Sources, false
	l.Tools, l.Named, l.Hosts = childTools(p, j.launch.Tools), nil, []string{}
	for _, h := range p.Hosts {
		if h == subagent.Inherit {
			l.Hosts = append(l.Hosts, j.launch.Hosts...)
		} else {
			l.Hosts = append(l.Hosts, h)
		}
	}
	l.Skills, l.Scripts, l.Approved = ch.Manifest.Skills, slices.Clone(p.Scripts), nil
	for _, a := range j.launch.Approved {
		if slices.Contains(p.Scripts, a.Entry) { // the operator approved this tree
			l.Approved = append(l.Approved, a)
		}
	}
	l.Prompt, l.PromptRole, l.Phase, l.Park = ch.Task, policy.Context, "", true
	l.Spec = agent.Spec{Mode: j.launch.Spec.Mode, MaxTurns: p.MaxTurns, MaxTokens: left, Output: ch.Output, Price: j.launch.Spec.Price}
	k := &job{a: j.a, op: j.op, settings: j.settings, origins: j.origins, snapshot: j.session.Snapshot(), model: j.model, view: j.view, shared: true,
		workspace: j.workspace, host: j.host, standing: j.standing, anyLevel: j.anyLevel, sandbox: j.sandbox, limits: j.limits, watch: j.watch, trusted: j.trusted}
	if p.Model != "" && p.Model != j.model.id {
		if k.model, err = j.a.openModel(j.op, p.Model); err != nil {
			return nil, err
		}
		l.Spec.Price = nil
		if pr, ok := j.op.Prices[k.model.id]; ok {
			l.Spec.Price = pr.price()
		}
	}
	l.Model, l.Spec.Model = firstSet(p.Model, l.Model), k.model.id
	m := ch.Manifest
	m.Parent, m.Depth, m.Tools = j.folder.ID(), subs.At, l.Tools
	if m.Scripts == nil {
		m.Scripts = []string{}
	}
	l.Skills, m.Missing = k.there(l.Skills)
	l.Child, l.Spec.Subagent = &launchChild{Manifest: m, Only: only(p, l.Skills), Instructions: p.Instructions, Browser: p.Browser}, &m
	k.launch = l
	if err := k.trust(ctx); err != nil {
		return nil, err
	}
	if l.runs() && k.sandbox == nil {
		if k.sandbox, k.anyLevel, err = j.a.openSandbox(l.Sandbox, j.op); err != nil {
			return nil, err
		}
		k.ownSandbox = true
	}
	if k.exact, err = k.onHost(); err != nil {
		return nil, err
	}
	return k, nil
}

// there splits names into skills that can be used and those that are not there.
func (j *job) there(names []string) (have, missing []string) {
	have, missing = []string{}, []string{}
	for _, n := range names {
		if _, err := j.snapshot.Find(n); err != nil {
			missing = append(missing, n)
		} else {
			have = append(have, n)
		}
	}
	return have, missing
}

// trust approves the scripts of a profile where their skills come from somebody
// the operator trusts: a name says nothing of who stands behind it, so those of
// a workspace or a stranger's root are asked for, and on the host those of a
// user's own, too.
func (j *job) trust(ctx context.Context) error {
	for _, e := range j.launch.Scripts {
		name, _, _ := cutEntry(e)
		sk, err := j.snapshot.Find(name)
		if err != nil {
			continue // the skill is missing, and told so
		}
		if t := sk.Tier.Or(); t != policy.Builtin && t != policy.Org && (t != policy.User || j.launch.Child.Manifest.Target == subagent.TargetHost) {
			continue
		}
		if err := j.approve(ctx, []string{e}); err != nil && metier.CodeOf(err) != "script_not_indexed" {
			return err
		}
	}
	return nil
}

// enter opens a child's session on its folder, and begins or goes on.
func (c *children) enter(ctx context.Context, k *job, folder *run.Folder) error {
	restored, err := folder.Restore(ctx)
	again := err == nil && restored.State.Seq > 0
	if err := k.open(ctx, folder); err != nil {
		return err
	}
	if again && len(k.session.State().Inputs) > 0 {
		drifts, err := k.drift(restored.Active, "")
		if err != nil {
			return err
		}
		if err := k.resumed(ctx, restored, drifts, k.onDrift("")); err != nil {
			return err
		}
	}
	return k.beginChild(ctx)
}

// beginChild puts a child's skills and its task into its session; done twice it
// changes nothing.
func (j *job) beginChild(ctx context.Context) error {
	st := j.session.State()
	for _, name := range j.launch.Skills {
		sk, err := j.session.Snapshot().Find(name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(st.Active, func(a metier.Activation) bool { return a.SkillID == sk.ID.String() }) {
			continue
		}
		if _, err := j.session.Activate(ctx, name, "subagent-inherit"); err != nil {
			return err
		}
	}
	in := metier.Input{ID: "prompt", Parts: []model.Part{model.Text(j.launch.Prompt)}, Role: policy.Context, Surface: "subagent", By: j.a.principal()}
	if _, err := j.session.Say(ctx, in); err != nil {
		return err
	}
	return j.folder.Project(ctx)
}

// instructed is what a child's system prompt ends with.
func (j *job) instructed(context.Context, *metier.Session) (string, error) {
	if j.launch.Child == nil {
		return "", nil
	}
	return strings.TrimSpace(j.launch.Child.Instructions + "\n\n" + subagent.Rules), nil
}

// answer hands a child the answers that people gave its parent's call.
func (j *job) answer(ctx context.Context, given map[string]policy.Answer) error {
	calls := j.session.State().Calls
	for id, c := range calls {
		ans, ok := given[c.Question.Binds]
		if c.Question.ID == "" || !ok {
			continue
		}
		ans.Question = c.Question.ID
		if ans.Scope == policy.ScopeAlways {
			ans.Scope = policy.ScopeSession // what holds always was kept where it was asked
		}
		if err := j.session.Answer(ctx, id, ans); err != nil {
			return err
		}
	}
	return j.settle(ctx)
}

// firstAsk is the open question of the first call that has one.
func firstAsk(calls map[string]metier.CallState) *policy.Question {
	best := ""
	for id, c := range calls {
		if c.Question.ID != "" && (best == "" || id < best) {
			best = id
		}
	}
	if best == "" {
		return nil
	}
	q := calls[best].Question
	return &q
}

// tokensLeft is what the run may still use, 0 for any number.
func (j *job) tokensLeft(ctx context.Context) (int64, error) {
	most := j.launch.Spec.MaxTokens
	if most == 0 {
		return 0, nil
	}
	used := int64(0)
	for en, err := range j.folder.Log().Read(ctx, 1) {
		if err != nil {
			return 0, err
		}
		e, err := event.Decode(en)
		if err != nil {
			continue
		}
		var u event.Usage
		switch e := e.(type) {
		case event.Replied:
			u = e.Usage
		case event.Compacted:
			u = e.Usage
		case event.ChildEnded:
			u = e.Usage
		}
		used += u.Input + u.Output + u.CacheRead + u.CacheWrite
	}
	if used >= most {
		return 0, &metier.Error{Op: "delegate", Kind: metier.LimitReached, Code: "token_budget", Err: errors.New("no tokens are left for a helper")}
	}
	return most - used, nil
}

// Ended returns how a child ended, from its record.
func (c *children) Ended(ctx context.Context, id string) (subagent.Outcome, error) {
	unknown := &metier.Error{Op: "delegate", Kind: metier.NotFound, Code: "unknown_handle", Hint: "use the handle that a result names", Err: errors.New("there is no helper of that handle that ended")}
	if run.CheckID(id) != nil {
		return subagent.Outcome{}, unknown
	}
	folder, err := run.Look(c.parent.folder.Children(), id, c.parent.a.runOptions())
	if err != nil {
		return subagent.Outcome{}, unknown
	}
	defer folder.Close()
	if past, err := readPast(ctx, folder); err != nil || !past.ended {
		return subagent.Outcome{}, unknown
	}
	return outcomeOf(ctx, folder)
}

// openTools are the tools whose results the parent may have itself: files of the
// workspace, the catalog, reports of helpers. What any other tool returned stays
// in the child.
var openTools = []string{settings.ToolReadFile, settings.ToolListFiles, settings.ToolSearchFiles, settings.ToolWriteFile, settings.ToolEditFile,
	settings.ToolSearchSkills, settings.ToolListSkills, subagent.ToolDelegate, subagent.ToolHandle}

// outcomeOf reads from its record how a child ended, and what must not leave it.
func outcomeOf(ctx context.Context, folder *run.Folder) (o subagent.Outcome, err error) {
	r, err := run.Show(ctx, folder)
	if err != nil {
		return o, err
	}
	o.Head = r.Head
	for _, f := range r.Files {
		o.Files = append(o.Files, f.Path)
	}
	text := func(ref record.Ref, parts bool) error {
		if ref.Digest == "" {
			return nil
		}
		b, err := folder.Blobs().Open(ctx, ref)
		if record.CodeOf(err) == record.CodeErased {
			return nil
		}
		if err != nil {
			return err
		}
		s := string(b)
		if parts {
			var ps []model.Part
			if json.Unmarshal(b, &ps) == nil {
				s = ""
				for _, p := range ps {
					s += p.Text
				}
			}
		}
		o.Private = append(o.Private, s)
		return nil
	}
	for en, err := range folder.Log().Read(ctx, 1) {
		if err != nil {
			return o, err
		}
		e, err := event.Decode(en)
		if err != nil {
			continue // Show has judged it
		}
		switch e := e.(type) {
		case event.Activated:
			o.Skills = append(o.Skills, event.SkillRef{ID: e.SkillID, Name: e.Name, Digest: e.Hash, Tree: e.Tree, Tier: e.Source})
			err = text(e.Text, false)
		case event.Said:
			if e.ID == "prompt" {
				var m model.Message
				if b, oerr := folder.Blobs().Open(ctx, e.Content); oerr == nil && json.Unmarshal(b, &m) == nil {
					o.Task = m.Text()
				}
			}
		case event.Returned:
			if !slices.Contains(openTools, e.Tool) || e.Code != "" {
				err = text(e.Content, true)
			}
		case event.Failed:
			err = text(e.Detail, false)
		case event.Replied:
			o.Turns, o.Usage = o.Turns+1, added(o.Usage, e.Usage)
		case event.Compacted:
			o.Usage = added(o.Usage, e.Usage)
		case event.ChildEnded:
			o.Usage = added(o.Usage, e.Usage)
		case event.Ended:
			o.Status, o.Code = e.Status, e.Code
			if o.Answer, o.Output, err = said(ctx, folder.Blobs(), e); err != nil {
				return o, err
			}
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// said is the final text and the structured result of a run that ended.
func said(ctx context.Context, blobs record.Blobs, e event.Ended) (answer string, output json.RawMessage, err error) {
	if e.Answer.Digest != "" {
		var m model.Message
		b, err := blobs.Open(ctx, e.Answer)
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil {
			return "", nil, err
		}
		answer = m.Text()
	}
	if e.Output.Digest != "" {
		if output, err = blobs.Open(ctx, e.Output); err != nil {
			return "", nil, err
		}
	}
	return answer, output, nil
}

func added(a, b event.Usage) event.Usage {
	out := event.Usage{Input: a.Input + b.Input, Output: a.Output + b.Output, CacheRead: a.CacheRead + b.CacheRead, CacheWrite: a.CacheWrite + b.CacheWrite}
	for _, c := range []*int64{a.CostMicroUSD, b.CostMicroUSD} {
		if c != nil {
			sum := *c
			if out.CostMicroUSD != nil {
				sum += *out.CostMicroUSD
			}
			out.CostMicroUSD = &sum
		}
	}
	return out
}
