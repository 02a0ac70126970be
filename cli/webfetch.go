package cli

import (
	"slices"

	"metier"
	"metier/fetch"
	"metier/settings"
)

// fetches reports whether the launch lets the model read pages of the network.
func (l launch) fetches() bool { return slices.Contains(l.Tools, settings.ToolWebFetch) }

// pages is the tool that reads pages, where the operator named it.
func (j *job) pages() []metier.Tool {
	if !j.launch.fetches() {
		return nil
	}
	o := j.a.web
	o.UserAgent = "metier/" + product()
	return []metier.Tool{fetch.Tool(o)}
}
