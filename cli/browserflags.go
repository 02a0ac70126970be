package cli

import (
	"github.com/spf13/pflag"

	"metier/engine"
)

// browserFlags are those of a run that may lend a browser.
type browserFlags struct{ endpoint, origin, until string }

func (f *browserFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.endpoint, "browser-endpoint", "", "lend subagents the browser whose DevTools are at this address of this machine: http://127.0.0.1:PORT")
	fl.StringVar(&f.origin, "browser-origin", "", "the one origin the lent browser may be at: https://app.example")
	fl.StringVar(&f.until, "browser-until", "", "how long it is lent, as 20m, or until when (default 1h)")
}

func (f browserFlags) request() engine.BrowserRequest {
	return engine.BrowserRequest{Endpoint: f.endpoint, Origin: f.origin, Until: f.until}
}
