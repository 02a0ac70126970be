package engine

import (
	"slices"
	"strings"

	"metier"
	"metier/fetch"
	"metier/settings"
)

// fetches reports whether the launch lets the model read pages of the network.
func (l Launch) fetches() bool { return slices.Contains(l.Tools, settings.ToolWebFetch) }

// pages is the tool that reads pages, where the operator named it.
func (j *Run) pages() []metier.Tool {
	if !j.launch.fetches() {
		return nil
	}
	o := j.e.o.Fetch
	version, _, _ := strings.Cut(j.e.o.Version, " ")
	o.UserAgent = "metier/" + version
	return []metier.Tool{fetch.Tool(o)}
}
