package engine

import (
	"slices"
	"strings"

	"metier"
	"metier/fetch"
	"metier/settings"
)

// fetches reports whether the launch lets the model read web pages.
func (l Launch) fetches() bool { return slices.Contains(l.Tools, settings.ToolWebFetch) }

// pages returns the tool that reads web pages, if the operator named it.
func (r *Run) pages() []metier.Tool {
	if !r.launch.fetches() {
		return nil
	}
	o := r.e.o.Fetch
	version, _, _ := strings.Cut(r.e.o.Version, " ")
	o.UserAgent = "metier/" + version
	return []metier.Tool{fetch.Tool(o)}
}
