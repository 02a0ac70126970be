package metier

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"metier/record"
	"metier/registry"
)

// bind makes a session that continues see the skills its record lists, unless
// it looks for skills again (Config.Refresh). A list that was erased binds
// nothing. The caller holds mu.
func (s *Session) bind(ctx context.Context) error {
	ref := s.state.Indexed.Registry
	if l := s.cfg.Like; s.cfg.Refresh != nil || len(s.cfg.Snapshot.mounts) == 0 || ref.Digest == "" || l != nil && l.Snapshot() == s.cfg.Snapshot {
		return nil
	}
	b, err := s.cfg.Blobs.Open(ctx, ref)
	if errors.Is(err, record.ErrErased) {
		s.cfg.Logger.Warn("the recorded list of skills was erased; skills are used as they are now")
		return nil
	}
	if err != nil {
		return s.fault("open", err)
	}
	list, err := registry.Read(b)
	if err != nil {
		return &Error{Op: "open", Kind: Drift, Code: "record_damaged", Hint: "check the record with 'metier audit verify RUN'", Err: err}
	}
	s.snap.Store(s.cfg.Snapshot.bound(list))
	return nil
}

// bound is the snapshot as an earlier list has it: the same skills under the
// same names, with the files and digests they had. A skill that the list does
// not offer is refused; one that is gone stays away.
func (n *Snapshot) bound(list registry.List) *Snapshot {
	was := list.ByID()
	out := &Snapshot{mounts: n.mounts, skills: n.All(), key: n.key, diags: n.Diagnostics(), read: n.read,
		won: n.won, others: n.others, indexed: map[ID]Skill{}, folders: map[View]map[string]int{}}
	for i, sk := range out.skills {
		sk.Diagnostics = slices.Clone(sk.Diagnostics)
		if w, listed := was[sk.ID.String()]; listed {
			out.skills[i] = sk.recorded(w)
		} else if sk.usable() {
			out.skills[i] = sk.refuse("not-recorded", "the run does not have this skill")
			out.diags = append(out.diags, out.skills[i].Diagnostics[len(sk.Diagnostics):]...)
		}
	}
	slices.SortStableFunc(out.skills, func(a, b Skill) int {
		return strings.Compare(a.Name, b.Name)
	})
	out.name()
	return out
}

// Asked returns the snapshot for the session of a subagent of s. The skills that ask rules cover have
// the files that s knows, which are those that its questions are about.
func (n *Snapshot) Asked(ctx context.Context, s *Session) (*Snapshot, error) {
	s.mu.Lock()
	refs := maps.Clone(s.state.Indexes)
	if s.fresh {
		refs = nil // what was recorded before counts no longer
	}
	s.mu.Unlock()
	known := map[int]Skill{}
	for i, sk := range n.skills {
		if _, recorded := refs[sk.ID.String()]; !recorded || !s.bound(sk) {
			continue
		}
		full, err := s.index(ctx, nil, sk)
		if err != nil {
			return nil, err
		}
		known[i] = full
	}
	if len(known) == 0 {
		return n, nil
	}
	n.mu.Lock()
	out := &Snapshot{mounts: n.mounts, skills: n.All(), key: n.key, diags: n.Diagnostics(), read: n.read,
		won: n.won, others: n.others, indexed: maps.Clone(n.indexed), folders: map[View]map[string]int{}}
	n.mu.Unlock()
	for i, sk := range known {
		out.skills[i] = sk
	}
	out.name()
	return out, nil
}

// recorded is the skill as a list has it. What people and this machine decide
// against it today still holds.
func (sk Skill) recorded(w registry.Skill) Skill {
	isTaken := func(d Diagnostic) bool { return d.Code == nameTaken }
	if sk.State == Hidden && w.Name != sk.Name && slices.ContainsFunc(sk.Diagnostics, isTaken) {
		sk.State, sk.Diagnostics = Loaded, slices.DeleteFunc(sk.Diagnostics, isTaken)
	}
	if sk.State == Shadowed || sk.State == Loaded {
		sk.State, sk.ShadowedBy = Status(w.State), ID{}
	}
	sk.Name, sk.Description = w.Name, w.Description
	if !bytes.Equal(sk.Head.Front.JSON(), w.Frontmatter) {
		head := *sk.Head
		head.Front = w.Front()
		sk.Head, sk.ModelInvocable = &head, !head.Front.DisableModelInvocation
		sk.UserInvocable = head.Front.UserInvocable == nil || *head.Front.UserInvocable
	}
	now := sk.Tree
	if sk.Indexed, sk.Tree, sk.Resources = false, "", nil; w.Indexed {
		sk = restore(sk, w)
	} else if w.Digest != "" {
		sk.Digest = Digest(w.Digest)
	}
	if now != "" && sk.Tree != "" && now != sk.Tree {
		sk = sk.Changed()
	}
	return sk
}
