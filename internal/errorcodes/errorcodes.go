// Package errorcodes documents every code of an error, a tool result, the end of a run, a problem
// in a record, and a notice. docs/ERRORS.md is generated from it. Diagnostic codes of skills are in
// internal/diagcodes.
package errorcodes

// Code documents one code.
type Code struct {
	Code  string
	Kinds string // kinds of the errors that have it, separated by commas; empty: never the code of an error
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
		{"Files and tools", files},
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
