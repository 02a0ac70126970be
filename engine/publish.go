package engine

import (
	"context"

	"metier"
	"metier/install"
	"metier/settings"
)

// Publication is a skill that is ready to be published.
type Publication struct {
	*install.Publication
	e *Engine
}

// Publish packs and scans the skill in a folder for a registry, if the settings of the request allow
// it. target is oci://HOST/REPOSITORY[:TAG]. Nothing is sent until [Publication.Push]. The caller closes
// the result.
func (e *Engine) Publish(ctx context.Context, q Request, dir, target string) (*Publication, error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := publishable(p.settings, p.setBy); err != nil {
		return nil, err
	}
	to, err := install.ParseTarget(target)
	if err != nil {
		return nil, err
	}
	packed, err := install.NewPublication(ctx, e.Env.Path(dir), to, p.settings)
	if err != nil {
		return nil, err
	}
	return &Publication{packed, e}, nil
}

// publishable returns an error if the setting publish is no.
func publishable(set settings.Settings, by settings.Origins) error {
	if set.Install.Publish == settings.PublishYes {
		return nil
	}
	return metier.Fieldf(metier.Denied, "Request.Layers", "publish_not_allowed", "use a profile or a setting publish that allows it", "%s does not allow publishing skills", setter(by, "publish"))
}

// Publishable returns an error if the settings do not allow that skills are published.
func (d *Discovery) Publishable() error { return publishable(d.Settings, d.setBy) }

func (p *Publication) options(force bool) install.PublishOptions {
	return install.PublishOptions{Env: environ(p.e.Env.Vars), Progress: p.e.o.Fetched, Force: force}
}

// Current returns the digest that the tag names now, or "".
func (p *Publication) Current(ctx context.Context) (string, error) {
	return p.Publication.Current(ctx, p.options(false))
}

// Push sends the skill to the registry. With force, it replaces what the tag names.
func (p *Publication) Push(ctx context.Context, force bool) error {
	return p.Publication.Push(ctx, p.options(force))
}
