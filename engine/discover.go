package engine

import (
	"context"

	"metier"
	"metier/settings"
)

// Discover finds the skills that a run of the request would have, like `metier list`. It uses only
// the locations and the settings in the request.
func (e *Engine) Discover(ctx context.Context, q Request) (*metier.Snapshot, settings.Settings, error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return nil, settings.Settings{}, err
	}
	snap, err := e.Snapshot(ctx, p.launch.Roots, p.settings, p.launch.Workspace, nil, q.Custom.Mounts...)
	return snap, p.settings, err
}
