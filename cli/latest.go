package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// latest is what users write for a run instead of its ID. docs/RUNS.md has the table of what it
// means.
const latest = "latest"

// What latest is, by group of commands.
const (
	latestStarted = "the run that started last"
	latestChanged = "the agent run that changed most recently"
	latestAsked   = "the run that asked last"
	latestOnly    = "the run that has an open question, if there is only one"
)

// The last paragraph of the help of the commands that take a run.
const (
	aboutRun     = "\n\nRUN is an ID, the start of an ID, the path of a run folder, or latest:\n" + latestStarted + "."
	aboutWaiting = "\n\nRUN is an ID, the start of an ID, the path of a run folder, or latest:\n" + latestAsked + "."
	aboutAnswer  = "\n\nRUN is an ID, the start of an ID, the path of a run folder, or latest:\n" + latestOnly + "."
)

// latestOf returns what latest is for a command.
func latestOf(c *cobra.Command) string {
	switch c.Name() {
	case "run":
		return latestChanged
	case "answer":
		return latestAsked
	case "approve", "deny":
		return latestOnly
	}
	return latestStarted
}

// noteLatest prints the run that latest is, for commands whose output does not begin with it. JSON
// documents have the ID.
func (a *app) noteLatest(what, id string) {
	if what == latest && !a.json {
		fmt.Fprintf(a.Err, "note: latest is run %s\n", id)
	}
}
