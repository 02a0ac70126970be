package mcp

const (
	older = "2025-11-25"
	newer = "2026-07-28"
)

// extension are the suite's scenarios about skills. The suite does not name
// their revisions: both. They are for `metier mcp`, as it is.
var extension = []string{"sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"}

// leftOut is a scenario, or one check of it, that does not pass and does not
// have to. The test fails if the suite does not know it, or if it passes after
// all.
type leftOut struct {
	scenario string
	check    string // "": all of it
	revision string
	why      string
}

const noTasks = "tasks (SEP-2663) are a separate extension, which metier does not offer: each tool call is answered immediately"

var left = []leftOut{
	{"sep-2640-skills-enumeration", "sep-2640-skills-list-cache-attributes", older, "ttlMs and cacheScope exist only in the newer revision"},
	{"sep-2640-skills-enumeration", "sep-2640-skills-get-cache-attributes", older, "ttlMs and cacheScope exist only in the newer revision"},
	{"tasks-lifecycle", "", newer, noTasks},
	{"tasks-capability-negotiation", "", newer, noTasks},
	{"tasks-wire-fields", "", newer, noTasks},
	{"tasks-request-state-removal", "", newer, noTasks},
	{"tasks-mrtr-input", "", newer, noTasks},
	{"tasks-request-headers", "", newer, noTasks},
	{"tasks-dispatch-and-envelope", "", newer, noTasks},
	{"tasks-status-notifications", "", newer, noTasks},
	{"tasks-required-task-error", "", newer, noTasks},
	{"tasks-mrtr-composition", "", newer, noTasks},
}

// named are the scenarios that use tools, resources or prompts with fixed
// names, or features that a server of skills does not need. Only the fixture
// runs them.
var named = map[string]bool{
	"server-stateless": true, "completion-complete": true, "json-schema-2020-12": true, "http-custom-header-server-validation": true, "server-sse-polling": true,
	"tools-call-simple-text": true, "tools-call-image": true, "tools-call-audio": true, "tools-call-embedded-resource": true, "tools-call-mixed-content": true,
	"tools-call-with-logging": true, "tools-call-error": true, "tools-call-with-progress": true, "tools-call-sampling": true, "tools-call-elicitation": true,
	"elicitation-sep1034-defaults": true, "elicitation-sep1330-enums": true,
	"resources-read-text": true, "resources-read-binary": true, "resources-templates-read": true, "resources-subscribe": true, "resources-unsubscribe": true,
	"prompts-get-simple": true, "prompts-get-with-args": true, "prompts-get-embedded-resource": true, "prompts-get-with-image": true,
	"input-required-result-basic-elicitation": true, "input-required-result-basic-sampling": true, "input-required-result-basic-list-roots": true,
	"input-required-result-request-state": true, "input-required-result-multiple-input-requests": true, "input-required-result-multi-round": true,
	"input-required-result-missing-input-response": true, "input-required-result-non-tool-request": true, "input-required-result-result-type": true,
	"input-required-result-tampered-state": true, "input-required-result-capability-check": true, "input-required-result-ignore-extra-params": true,
}

// hosts are the suite's scenarios about hosts of skills, and the errors of our
// host; "" for none.
var hosts = []struct{ scenario, says string }{
	{"sep-2640-client-no-prefetch", ""},
	{"sep-2640-client-verify-digest", "the file from the server does not match the digest in its entry"},
	{"sep-2640-client-verify-size", "the server sent 139 bytes; its entry declares 97"},
	{"sep-2640-client-verify-frontmatter", `the field "description" of the file is not the one of the entry`},
}
