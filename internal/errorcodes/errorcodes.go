// Package errorcodes documents every code of an error, a tool result, the end of a run, a problem
// in a record, and a notice. docs/ERRORS.md is generated from it. Diagnostic codes of skills are in
// internal/diagcodes.
package errorcodes

// Code documents one code.
type Code struct {
	Code  string
	Kinds string // kinds of the errors that have it, separated by commas; empty: not the code of a metier.Error
	Means string // what happened and why, one sentence
	Fix   string // what to do, one sentence; empty: nothing
}

// Group is the codes of one area.
type Group struct {
	Title string
	Codes []Code
}

// Groups returns all codes by area.
func Groups() []Group {
	return []Group{
		{"Requests and commands", requests},
		{"Configuration, settings, and state", configuration},
		{"Skills", skills},
		{"Installed skills", installed},
		{"Files and tools", files},
		{"Archives", archives},
		{"Policy and approvals", decisions},
		{"Scripts, sandboxes, and browsers", scripts},
		{"Network", network},
		{"Models", models},
		{"Runs and conversations", runs},
		{"Records", records},
		{"Subagents", subagents},
		{"MCP", protocol},
		{"Harnesses", harnesses},
		{"Internal", internal},
	}
}

// Of returns the documentation of a code.
func Of(code string) (Code, bool) {
	c, ok := byCode[code]
	return c, ok
}

var byCode = index()

func index() map[string]Code {
	m := map[string]Code{}
	for _, g := range Groups() {
		for _, c := range g.Codes {
			m[c.Code] = c
		}
	}
	return m
}

// exits are the exit statuses of errors that only commands have, and of the ends of runs whose status
// does not follow from a kind.
var exits = map[string]string{
	"address_unusable":    "2",
	"baseline_unreadable": "2",
	"calls_denied":        "3",
	"client_unknown":      "2",
	"command_ended":       "1",
	"command_failed":      "the command's",
	"archive_exists":      "2",
	"confirmation_needed": "2",
	"doctor_problems":     "1",
	"failed":              "1",
	"harness_exists":      "1",
	"harness_not_written": "1",
	"interrupted":         "130",
	"mcp_not_verifiable":  "1",
	"mcp_not_verified":    "1",
	"name_invalid":        "2",
	"output_unwritable":   "1",
	"path_missing":        "2, 4",
	"prompt_unreadable":   "2",
	"record_unverified":   "5",
	"run_cancelled":       "130",
	"run_interrupted":     "130",
	"schema_unreadable":   "2",
	"skill_flagged":       "1",
	"skill_not_fixed":     "1",
	"skill_not_written":   "1",
	"stdin_too_large":     "2",
	"terminal":            "2",
	"type_unknown":        "2",
	"updates_available":   "1",
}

// Exit returns the exit status of a command that fails with the code, if it does not follow from the
// kind of the error.
func Exit(code string) (status string, known bool) {
	status, known = exits[code]
	return status, known
}
