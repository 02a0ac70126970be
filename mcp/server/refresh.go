package server

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
)

// snapshot gives sessions the skills as they are served.
func (s *Server) snapshot(context.Context) (*metier.Snapshot, error) {
	return s.index.Load().snapshot, nil
}

// load indexes the skills as they are and reports whether anything changed.
func (s *Server) load(ctx context.Context) (changed bool, err error) {
	snap, err := s.backend.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	x, err := s.build(ctx, snap)
	if err != nil {
		return false, err
	}
	if old := s.index.Load(); old != nil && old.print == x.print {
		return false, nil
	}
	s.index.Store(x)
	return true, nil
}

// Refresh looks at the skills anew. Where something changed, sessions get the
// new skills, and clients that want to know are told.
func (s *Server) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	s.tidy()
	changed, err := s.load(ctx)
	if err != nil || !changed {
		return err
	}
	s.mu.Lock()
	all := []*client{s.own}
	for _, c := range s.clients {
		if c.ready {
			all = append(all, c)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, s.refreshed(ctx, c))
	}
	s.show(ctx)
	return errors.Join(errs...)
}

// Counts returns how many skills skills/list has, and how many it omits that
// are not hidden from models.
func (s *Server) Counts() (listed, omitted int) {
	x := s.index.Load()
	for _, v := range x.all {
		if v.unlisted.Code != "" && v.unlisted.Code != CodeHidden {
			omitted++
		}
	}
	return len(x.listed), omitted
}

// Watch refreshes until ctx ends: every interval, and more seldom where looking
// takes long, so that it never costs more than a hundredth of one core.
func (s *Server) Watch(ctx context.Context, interval time.Duration) {
	for {
		begun := s.opts.Now()
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.ErrorContext(ctx, "the skills cannot be read; clients get the previous list", "error", err.Error())
		}
		select {
		case <-time.After(max(interval, 100*s.opts.Now().Sub(begun))):
		case <-ctx.Done():
			return
		}
	}
}

// shown is what the protocol library was given.
type shown struct {
	tools     map[string]*mcp.Tool
	prompts   map[string]*mcp.Prompt
	resources map[string]*mcp.Resource
}

// show gives the protocol library the tools, prompts and resources as they are
// now; it tells clients of those that differ.
func (s *Server) show(ctx context.Context) {
	x := s.index.Load()
	canonical := map[string]string{}
	tools, prompts, resources := map[string]*mcp.Tool{}, map[string]*mcp.Prompt{}, map[string]*mcp.Resource{}
	for _, spec := range s.own.session.Offer(ctx) {
		if t := s.tool(spec); t != nil {
			tools[t.Name], canonical[t.Name] = t, spec.Canonical
		}
	}
	for _, v := range x.all {
		if v.skill.UserInvocable {
			p := prompt(v.skill)
			prompts[p.Name] = p
		}
		if v.unlisted.Code == "" {
			r := v.resource()
			resources[r.URI] = r
		}
	}
	change(s.shown.tools, tools, func(t *mcp.Tool) { s.mcp.AddTool(t, s.callTool) }, s.mcp.RemoveTools)
	change(s.shown.prompts, prompts, func(p *mcp.Prompt) { s.mcp.AddPrompt(p, s.getPrompt) }, s.mcp.RemovePrompts)
	change(s.shown.resources, resources, func(r *mcp.Resource) { s.mcp.AddResource(r, s.readResource) }, s.mcp.RemoveResources)
	s.shown = shown{tools, prompts, resources}
	s.canonical.Store(&canonical)
}

// change adds what is new or differs and removes what is gone.
func change[T any](was, is map[string]T, add func(T), remove func(...string)) {
	var gone []string
	for name := range was {
		if _, there := is[name]; !there {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	remove(gone...)
	for name, v := range is {
		if old, there := was[name]; !there || !reflect.DeepEqual(old, v) {
			add(v)
		}
	}
}
