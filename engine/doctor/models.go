package doctor

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"metier/model/provider"
)

// models checks the configured model providers. Keys are never shown.
func (d *doctor) models(ctx context.Context) {
	reachable := false
	if want, from := d.op.DefaultModel(d.e.Env); want != "" {
		if _, err := provider.Open(want, d.op.Models(d.e.Env)); err != nil {
			d.bad("model", fmt.Errorf("%s asks for %s: %w", from, want, err))
		} else {
			d.ok("model", "%s (%s)", want, from)
		}
		reachable = true
	}
	for _, p := range provider.All() {
		switch {
		case p.Name == "ollama":
			reachable = d.ollama(ctx, p) || reachable
		case d.op.Models(d.e.Env).Key(p) != "":
			reachable = true
			d.ok("model", "%s: key is set%s", p.Name, d.at(p))
		case p.Keyless:
			d.ok("model", "%s: needs no key%s; used only when named", p.Name, d.at(p))
		default:
			d.ok("model", "%s: no key (%s)", p.Name, strings.Join(p.Keys, ", "))
		}
	}
	if !reachable {
		d.note("model", "set a provider's key, start Ollama, or specify a model with Request.Model", "no model: only runs with a recorded script work")
	}
}

// at returns the address of a provider unless it is the default, without secrets.
func (d *doctor) at(p provider.Provider) string {
	base := d.op.Models(d.e.Env).Base(p)
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return ", at an address that cannot be read"
	}
	return ", at " + u.Scheme + "://" + u.Host + u.Path
}

// ollama queries a local Ollama for its models.
func (d *doctor) ollama(ctx context.Context, p provider.Provider) bool {
	base := d.op.Models(d.e.Env).Base(p)
	if u, err := url.Parse(base); err != nil || !loopback(u.Hostname()) {
		d.ok("model", "ollama: not asked, since it is not on this machine%s", d.at(p))
		return false
	}
	name := provider.LocalOllama(ctx, base)
	if name == "" {
		d.ok("model", "ollama: not running%s", d.at(p))
		return false
	}
	d.ok("model", "ollama: answers%s, first model %s", d.at(p), name)
	return true
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
