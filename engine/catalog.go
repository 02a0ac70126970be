package engine

import (
	"context"

	"metier"
	"metier/record"
	"metier/settings"
)

// catalog returns the catalog of a snapshot's skills that a run would show to its model. It records
// nothing.
func (e *Engine) catalog(ctx context.Context, l Launch, s settings.Settings, snap *metier.Snapshot) (metier.Catalog, error) {
	r := &Run{e: e, launch: l, settings: s, snapshot: snap, view: e.Finder().View(s, l.Workspace)}
	mem := record.NewMemory()
	session, err := metier.Open(ctx, metier.Config{ID: "explain", By: e.Principal(), Log: mem, Blobs: mem, Snapshot: snap,
		Settings: s, Grants: r.grants(), View: r.view, Batch: true, Now: e.Now})
	if err != nil {
		return metier.Catalog{}, err
	}
	return session.Catalog(ctx), session.Close(ctx)
}
