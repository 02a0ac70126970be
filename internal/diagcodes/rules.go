// Package diagcodes explains each code of a skill's diagnostics and how to fix
// it. It only holds data and decides nothing.
package diagcodes

// Rule is one rule that decides whether a skill is loaded, or that reports a
// problem with it.
type Rule struct {
	Why string // the rule or the problem, one sentence without a period
	Fix string // what to do, one sentence without a period; "" if no fix is needed
}

// Of returns the rule of a code. Codes of later releases and of third-party
// sources are unknown.
func Of(code string) (r Rule, known bool) {
	for _, t := range []map[string]Rule{outcome, naming, served, unlisted, harnesses, parsing, repaired, writing, judging, advice, finding, roots, files, nowhere, catalog, notes} {
		if r, known = t[code]; known {
			return r, true
		}
	}
	return Rule{}, false
}

// Repaired reports whether a code means that frontmatter was read only after a
// repair.
func Repaired(code string) bool {
	_, is := repaired[code]
	return is
}

// Naming reports whether a code is about a conflict of a skill's name with
// other names.
func Naming(code string) bool {
	_, is := naming[code]
	return is
}

// Which skill is loaded, and decisions of users.
var outcome = map[string]Rule{
	"unique-name":          {"no other skill has this name", ""},
	"first-of-name":        {"several skills have this name; this one has a folder with that name, or comes first in the order of the roots and tiers (setting precedence)", ""},
	"duplicate-skill-name": {"another skill has this name and comes first in the order of the roots and tiers (setting precedence)", "rename one of the two skills, or specify only this skill's root with --skills-root"},
	"name-reserved":        {"names that begin with mcp: are reserved for skills from MCP servers (SEP-2640)", "rename the local skill"},
	"name-protected":       {"the name belongs to a skill of a more trusted tier (setting protect_names), or to one that a file of the workspace disabled", "rename this skill"},
	"disabled":             {"a user disabled this skill", "run 'metier enable NAME'"},
	"skill-listed-twice":   {"a skill's folder counts once, even if several roots and links lead to it", ""},
	"not-recorded":         {"a run keeps the skills it started with", "start a new run, or resume with --on-drift reload"},
	"other-platform":       {"the skill lists the operating systems that it supports, and this one is not among them (setting platform_filter)", "load it by name: metier run --skill NAME; or set platform_filter to off"},
	"installed":            {"the skill was installed from another machine, so it is trusted less than the skills that are in the same folder otherwise", "read it, and trust its files with 'metier trust NAME'"},
	"trusted":              {"the operator trusts exactly these files (metier trust)", ""},
	"trust-lapsed":         {"trust applies to exact file contents and ends when a file changes", "review the change, then run: metier trust NAME; to remove the trust, run: metier trust NAME --revoke"},
	"hidden":               {"the skill is hidden from the model and can still be loaded by name", "load it by name: metier run --skill NAME"},
	"refused":              {"the skill cannot be used", "fix the problems in the diagnostics"},
}

// Conflicts of a skill's name with other names.
var naming = map[string]Rule{
	"name-taken":        {"this skill's name differs from its folder's name, and another skill of the same or a more trusted tier, or a folder, already uses the name", "rename the skill or its folder so that both match; until then, it loads only by its ID"},
	"confusable-name":   {"users and models confuse names that look alike (Unicode Technical Standard #39)", "rename one of the two skills"},
	"mixed-script-name": {"letters of different scripts can look alike, so a name must use one script", "write the name in one script"},
}

// Problems of MCP servers and their skills.
var served = map[string]Rule{
	"mcp-entry-invalid":   {"for each skill, a server must return the URI, the frontmatter, and every file with its digest and size (SEP-2640)", "report it to the server's operator; 'metier mcp inspect SERVER' shows the entry"},
	"mcp-skill-too-large": {"a skill from a server can have at most 512 files and 16 MiB", "ask the server's operator to split the skill"},
	"mcp-list-failed":     {"the server did not list its skills in time, or did not return the configured skills", "try 'metier mcp inspect SERVER' with the server's name"},
	"mcp-skill-changed":   {"a run keeps the version of a server's skill that it loaded or read first", "start a new run, and approve again"},
	"mcp-skill-dynamic":   {"the server generates the skill each time, so it cannot be verified", ""},
	"mcp-no-skills":       {"the configuration requests skills from a server that offers none", "remove skills: true from its configuration"},
	"mcp-server-failed":   {"the server cannot be used; the run continues without it", "fix what the message names, such as its command, cwd, or env, and test it with 'metier mcp inspect SERVER' and the server's name"},
	"mcp-server-timeout":  {"the server did not start in time (startTimeoutMs)", "raise startTimeoutMs, or check what the server is waiting for"},
	"mcp-skills-cut":      {"a server's list of skills must end, and only its first 10,000 skills are used", "report it to the server's operator"},
	"mcp-tools-cut":       {"only the first 512 tools from a server are used, and at most 512 KiB of definitions", "report it to the server's operator"},
	"mcp-tool-refused":    {"a tool must have a name and a JSON Schema of type object", "report it to the server's operator"},
	"mcp-tool-clash":      {"two tools have the same name; the first one keeps it", "give the server a different label, or report it to its operator"},
	"mcp-cache-altered":   {"a cached file of a server's skill did not match its hash, so it was fetched again", "find the program that writes to the folder that 'metier doctor' names"},
	"mcp-process-left":    {"a server and all processes it started must end with the run", "find the process and end it by hand; the server should not start background processes"},
	"mcp-tool-drifted":    {"a resumed run leaves out a tool that has changed or was removed since the run started", "start a new run, or resume with --on-drift reload, which uses the current tools"},
	"mcp-tools-new":       {"a run ignores tools that a server adds after the run has started", "start a new run"},
	"name-by-path":        {"two skills from one server have the same name, so both are named by their paths", ""},
}

// Why skills/list of 'metier mcp' omits a skill that clients can still load by its name.
var unlisted = map[string]Rule{
	"mcp-unlisted-name":        {"skills/list contains only skills whose name has 1 to 64 lowercase letters a-z, digits, and single hyphens: clients reject others", "rename the skill"},
	"mcp-unlisted-description": {"skills/list contains only skills whose description has 1 to 1,024 characters: clients reject others, and some reject the whole list", "write a description of that length"},
	"mcp-unlisted-frontmatter": {"clients parse the frontmatter themselves and compare it with skills/list, so all YAML parsers must read it the same way", "quote the value, or repair the frontmatter; 'metier validate' shows the line"},
	"mcp-unlisted-file-name":   {"clients expect the file name SKILL.md", "rename the file to SKILL.md"},
	"mcp-unlisted-hidden":      {"skills that are hidden from models are not in skills/list", ""},
	"mcp-unlisted-size":        {"clients accept at most 512 files and 16 MiB per skill (SEP-2640)", "split the skill, or remove files from its folder"},
	"mcp-unlisted-injection":   {"a file that reads like a prompt injection is withheld from clients (setting injection), so they could not verify the skill", "review the file; if it is harmless, trust the skill (metier trust) or change the setting"},
	"mcp-unlisted-unreadable":  {"every file in skills/list must be readable", "check the file's permissions"},
	"mcp-unlisted-address":     {"two skills would share the address of a file", "rename one of the two folders"},
}

// Problems of a harness.
var harnesses = map[string]Rule{
	"harness-missing":          {"a harness is a folder with a file HARNESS.md", "write HARNESS.md with a name, a description, and a body that describes the agent's task; 'metier harness init DIR' creates one"},
	"harness-too-large":        {"HARNESS.md is part of every request, so its size is limited", "move long text into references"},
	"harness-unreadable":       {"the files and folders of a harness must be regular and readable", "check the file's permissions and type, and its target if it is a link"},
	"harness-folder-ignored":   {"in layout v1, a harness uses only the folders skills and references", "move the folder into one of them, or use layout v2 (setting harness_layout)"},
	"harness-file-ignored":     {"in layout v1, the folders under skills contain only skills and SKILLS.md", "move the file into a skill, or under references"},
	"harness-detector":         {"a line of .leaf-detectors has the form type=relative/path", "correct the line, or comment it out with #"},
	"harness-name-unusable":    {"a path cannot contain this name, so no call can refer to the file or folder", "rename it"},
	"harness-entries-exceeded": {"the number of names that are read from a harness is limited", "make the harness smaller, or split it into several"},
	"harness-depth-exceeded":   {"folders below the maximum depth are not read (setting max_depth)", "move the folder up"},
	"harness-bytes-exceeded":   {"the total size of frontmatter that is read from a harness is limited", "make the harness smaller"},
	"harness-link":             {"links are followed only inside the harness (setting symlinks)", "replace the link with a copy of its target"},
	"harness-link-duplicate":   {"a folder is in a harness once, even if several links lead to it", ""},
	"harness-group-summary":    {"a group needs a summary file: SKILLS.md, REFERENCES.md, or the name of its top folder in capitals (setting group_summary)", "write the file, with a description in its frontmatter and a summary of the group's content"},
	"harness-skill-undetected": {"in layout v2, a folder with a SKILL.md is a skill only if .leaf-detectors has a line for it", "add the line skill=SKILL.md to .leaf-detectors"},
	"harness-layout-assumed":   {"a harness with only skills and references can have either layout, and v1 is assumed (setting harness_layout)", "add .leaf-detectors with the line skill=SKILL.md, so that every tool finds the same skills"},
	"harness-not-regular":      {"a document must be a regular file", "remove it"},
	"harness-description":      {"a Markdown file needs a description in its frontmatter that states when to read it", "add a description"},
	"harness-skill-file":       {"a leaf of type skill must have a SKILL.md", "write a SKILL.md, or change the type in .leaf-detectors"},
	"harness-both-files":       {"a folder is either a group or a skill, and SKILLS.md makes it a group", "remove one of the two files"},
}

// Problems of the text of a SKILL.md.
var parsing = map[string]Rule{
	"empty-file":                   {"nothing can be loaded from SKILL.md", "write frontmatter with name and description, and instructions below it"},
	"not-utf8":                     {"SKILL.md must be UTF-8 text", "save the file as UTF-8"},
	"nul-byte":                     {"SKILL.md must not contain NUL bytes", "remove the NUL byte"},
	"no-frontmatter":               {"a skill begins with frontmatter between two --- lines", "begin the file with ---, name, description, and ---"},
	"unclosed-frontmatter":         {"the frontmatter must end with a line that contains only ---", "add the closing --- line"},
	"frontmatter-too-large":        {"only the first bytes of the file are read for the frontmatter, and it must end within them", "close the frontmatter earlier with a --- line, and move long text below it"},
	"skill-too-large":              {"a SKILL.md above the size limit is never loaded", "move long text into files under references"},
	"frontmatter-empty":            {"the frontmatter must contain name and description", "write name and description between the two --- lines"},
	"frontmatter-not-mapping":      {"the frontmatter must consist of key: value lines", "write each field as key: value on its own line"},
	"invalid-yaml":                 {"the frontmatter must be valid YAML", "fix the line shown in the message; quote values that contain a colon, a #, or a bracket"},
	"control-character":            {"YAML allows no control characters", "remove the character shown in the message"},
	"duplicate-key":                {"a key can occur only once in frontmatter", "remove one of the two lines"},
	"yaml-complex-key-refused":     {"keys must be plain words", "write the key as a plain word"},
	"yaml-alias-refused":           {"frontmatter cannot contain aliases, because they can expand without limit", "write out the value"},
	"yaml-anchor-refused":          {"frontmatter cannot contain anchors", "remove the &name, or quote the value"},
	"yaml-tag-refused":             {"frontmatter cannot contain tags", "remove the !tag, or quote the value"},
	"yaml-directive-refused":       {"frontmatter cannot contain directives", "remove the line that begins with %"},
	"yaml-merge-key-refused":       {"frontmatter cannot contain merge keys", "write out the fields"},
	"yaml-second-document-refused": {"frontmatter must be a single YAML document", "remove the start of the second document"},
	"yaml-too-deep":                {"the nesting depth of values in frontmatter is limited", "use a flatter value"},
	"yaml-too-many-values":         {"the number of values in frontmatter is limited", "move long lists below the frontmatter"},
	"field-type":                   {"the field has the wrong type; its value is kept and has no effect", "write the value as the type that the message names"},
}

// Repairs that made frontmatter readable. Strict validation refuses each of
// them.
var repaired = map[string]Rule{
	"unquoted-colon":        {"a value that contains a colon and a space must be quoted", "quote the value"},
	"unquoted-indicator":    {"a value that begins with a YAML indicator character must be quoted", "quote the value"},
	"text-after-flow":       {"no text can follow a list or map in brackets", "quote the whole value"},
	"loose-json":            {"a list or map in brackets cannot contain comments or a trailing comma", "remove the comment or comma, or write one entry per line"},
	"surrogate-escape":      {"a character must be written as itself, not as a pair of surrogate escapes", "write the character itself"},
	"unreadable-field":      {"the value cannot be parsed; it is kept as text and has no effect", "fix the value that the detail names"},
	"fenced-frontmatter":    {"the frontmatter must not be inside a code block", "remove the fence around it"},
	"frontmatter-not-first": {"the opening --- line must be the first line of the file", "move the text above it below the frontmatter"},
	"closing-line-missing":  {"the frontmatter must end with a line that contains only ---", "add the closing --- line"},
}

// Why a field is not written into a SKILL.md.
var writing = map[string]Rule{
	"edit-unreadable": {"metier changes a field only if the frontmatter parses without repairs", "repair it first: metier fix --write PATH"},
	"edit-layout":     {"metier changes a field only if each field is on its own line", "write each field as key: value on its own line"},
	"edit-key":        {"a field can be renamed only if it exists and its new name is unused", "check the names of the fields"},
	"edit-value":      {"metier writes a value only if YAML reads it back as the same value", "use another value: text must be UTF-8, and a map must not repeat a key"},
	"edit-unkept":     {"a change to one field must not alter the rest of the file", "make the change by hand"},
}

// Further findings of 'metier validate'.
var advice = map[string]Rule{
	"compatibility-empty":     {"the compatibility field must not be empty", "state what the skill needs, or remove the field"},
	"name-not-portable":       {"the specification allows the name, but other clients may reject it", "use lowercase letters without marks, digits, and hyphens"},
	"allowed-tools-separator": {"tools in allowed-tools are separated by spaces", "replace each comma with a space"},
	"broken-link":             {"a relative link must lead to a file of the skill", "add the file, or fix the link"},
	"link-leaves-skill":       {"a skill's links must stay in its folder, because other files are not distributed with it", "copy the file into the folder, or describe in words where it is"},
	"missing-resource":        {"every path in the instructions must exist", "add the file, or fix the path"},
	"misspelt-field":          {"field names must match exactly", "use the suggested name"},
	"description-when":        {"the description should state when to use the skill, because models choose skills only by their descriptions", "add a sentence such as: Use when …"},
	"description-short":       {"the description should be long enough for a model to choose the skill by it", "describe what the skill does and when to use it"},
	"many-tokens":             {"instructions should be short enough to read in full", "move details into files that are read on demand"},
	"links-not-looked-at":     {"only the first part of long instructions is checked for links", "move parts of the instructions into files under references"},
	"long-instructions":       {"instructions should be short, with details in files that are read on demand", "move parts of the instructions into files under references"},
	"more":                    {"findings of one kind are listed up to a limit, and the others are only counted", "fix the listed findings and validate again"},
}

// Problems of a readable skill, which depend on the settings of parsing and
// naming.
var judging = map[string]Rule{
	"missing-name":            {"a skill must have a name (setting missing_name)", "add a name: field with the folder's name to the frontmatter"},
	"missing-description":     {"a skill must have a description, because models choose skills only by their descriptions (setting missing_description)", "add a description: field that states what the skill does and when to use it"},
	"invalid-name":            {"a name must consist of 1 to 64 lowercase letters, digits, and single hyphens (settings validation, name_charset)", "rename the skill and its folder"},
	"name-unusable":           {"a name must be short enough to display and to request", "use a name of at most 64 characters"},
	"name-directory-mismatch": {"the name must match the folder's name (setting identity)", "rename the folder or the skill so that both match"},
	"description-too-long":    {"a description can have at most 1,024 characters (setting validation)", "shorten it to what the skill does and when to use it, and move the rest below the frontmatter"},
	"compatibility-too-long":  {"a compatibility note must be short (settings validation, compatibility_max)", "shorten it, and move the rest below the frontmatter"},
	"unexpected-field":        {"only fields of the specification are allowed (setting unknown_fields)", "move the field under metadata, or remove it"},
}

// Problems of a scan for skills.
var finding = map[string]Rule{
	"unreadable-skill":             {"SKILL.md must be a readable regular file", "check its permissions and type; if it is a link or a pipe, replace it with a copy of the file"},
	"unreadable-directory":         {"a folder must be readable to be scanned", "make it readable and searchable: chmod u+rx"},
	"skill-file-name":              {"a skill's file must have exactly this name", "rename the file to SKILL.md, or set file_names to lower_too"},
	"skill-other-file-system":      {"a scan does not enter other file systems that are mounted under a root", "add the folder as its own root with --skills-root"},
	"skills-root-not-folder":       {"a skills root is a folder that contains skill folders", "replace it with a folder, or remove it"},
	"skill-outside-root":           {"SKILL.md must be inside its root after links are resolved", "copy the file into the skill's folder"},
	"skill-scan-outside-root":      {"a link to a skill's folder must lead into a root that is in use", "move the folder into the root, or add its target as another --skills-root"},
	"skill-symlink-ignored":        {"links are not followed under this setting", "copy the link's target, or set symlinks to in_bounds"},
	"unresolvable-skill-path":      {"the link's target does not exist", "repair or remove the link"},
	"unresolvable-skill-scan-path": {"the link's target does not exist, or the link is part of a loop", "repair or remove the link"},
	"skill-link-duplicate":         {"a folder is listed once, even if several links lead to it", ""},
	"symlink-cycle":                {"a link to a folder above itself would loop", "remove the link"},
	"scan-limit-exceeded":          {"the number of folders in a scan is limited (setting max_dirs)", "specify a folder further down with --skills-root, or raise max_dirs"},
	"max-depth-exceeded":           {"folders below the maximum depth are not scanned (setting max_depth)", "move the skill up, specify a folder further down with --skills-root, or raise max_depth"},
}

// Problems of a root as a whole.
var roots = map[string]Rule{
	"root-listed-twice": {"a folder is one root, even if several paths lead to it", ""},
	"root-unusable":     {"a root that was found automatically must be a readable folder in its project", "check the folder, or specify its target with --skills-root, or in the configuration"},
	"root-unsafe":       {"a root above the workspace, or for the whole machine, is used only if no other user can write to it", "run chmod o-w on it, or specify the folder with --skills-root or in the configuration"},
	"state-unreadable":  {"the file with disabled and trusted skills must be readable", "fix the file; until then, it has no effect"},
}

// Problems of the other files of a skill. The skill can be used despite them.
var files = map[string]Rule{
	"resource-too-large":                  {"the size of a skill's file is limited", "make the file smaller, or store it elsewhere"},
	"resource-file-limit-exceeded":        {"the number of a skill's files is limited (setting max_resources)", "move files that models do not read out of the skill's folder"},
	"resource-folder-skipped":             {"the folders of version control systems and package managers are not part of a skill", ""},
	"unreadable-skill-resource":           {"a skill's files must be readable regular files", "check the file's permissions and type"},
	"unreadable-skill-resource-directory": {"a folder must be readable to be scanned", "make it readable and searchable: chmod u+rx"},
	"unresolvable-skill-resource":         {"a skill's file must exist, and its name must be valid in a path", "repair or remove the link, or rename the file"},
	"skill-resource-outside-root":         {"a skill's file must be inside the skill's folder after links are resolved", "copy the file into the skill's folder"},
}

// Why a path is not a skill.
var nowhere = map[string]Rule{
	"outside-roots":  {"only the roots are searched for skills", "specify its folder with --skills-root, or in the configuration"},
	"inside-skill":   {"a skill's folder is not searched for more skills, because its content belongs to that skill (setting nested_skills)", "move the folder beside the other skill, or set nested_skills to yes"},
	"group-folder":   {"a folder without SKILL.md is not a skill, but the folders in it are searched", ""},
	"no-skill-file":  {"a skill is a folder that contains SKILL.md", "write SKILL.md with a name, a description, and instructions"},
	"skill-file":     {"a file of a skill is not a skill; a model can read it while the skill is active", ""},
	"not-skill-file": {"a skill is a folder that contains SKILL.md", "put the text into a file SKILL.md in its own folder"},
	"folder-skipped": {"folders with this name are never searched", "move the skill out of it"},
	"children-only":  {"only folders directly in the root are searched (setting scan)", "move the folder up, or set scan to recursive"},
	"not-a-folder":   {"part of the path is not a folder", "specify the path to the skill's folder"},
	"path-missing":   {"nothing exists at this path", "specify the path to a folder that exists"},
	"not-listed":     {"the path did not exist, or was different, when the roots were listed", "run the command again"},
}

// What the catalog shows of a usable skill, and why.
var catalog = map[string]Rule{
	"listed":                   {"loaded skills are in the catalog by default", ""},
	"not-loaded":               {"only loaded skills are in the catalog", ""},
	"disable-model-invocation": {"the skill sets disable-model-invocation, so only users can load it", "load it by name: metier run --skill NAME"},
	"denied":                   {"the operator denied this skill", "remove it from deny in the configuration, a policy file, or the metier.yaml of the workspace"},
	"no-catalog":               {"the settings show no skills to the model, or no tool of this profile loads one (settings catalog_format, catalog_place)", "load it by name: metier run --skill NAME"},
	"listed-cut":               {"the settings and the budget limit the length of descriptions in the catalog (settings catalog_desc_max, catalog_budget)", "shorten the description to at most 1,024 characters; if the budget is the limit, put the important words first, or raise catalog_budget"},
	"listed-by-name":           {"all descriptions together exceed the budget, so the catalog contains only names (setting catalog_budget)", "raise catalog_budget, or specify fewer roots; the model can find descriptions with the skill search tool"},
	"search-only":              {"the skill does not fit into the catalog, but the model can find it with the skill search tool (settings catalog_max, catalog_budget)", "raise catalog_budget, or load it by name: metier run --skill NAME"},
	"catalog-full":             {"the skill does not fit into the catalog, and the model has no skill search tool (settings catalog_max, catalog_budget)", "raise these settings, allow search_skills, or load it by name: metier run --skill NAME"},
	"injection-blocked":        {"the skill's name or description reads like a prompt injection, and for skills of its tier, such text is withheld from the model (setting injection)", "review it; if it is harmless, reword it, or give its root a trusted tier"},
	"injection-like-text":      {"text that asks a model to ignore its instructions, reveal its prompt, or hide its actions is reported (setting injection)", "review it before you trust it; if it is harmless, reword it"},
}

// Notes about single files, and what validate and fix report.
var notes = map[string]Rule{
	"wrapper-tag-neutralized":   {"text that contains a tag of metier's own markup is escaped before a model reads it", ""},
	"resource-digest-mismatch":  {"a file changed after the skill was indexed", "start a new run, or restore the file"},
	"resource-late":             {"a file was added after the skill was indexed", "start a new run to index it"},
	"skill-not-staged":          {"the files of a skill could not be copied for its programs", "check the files that the detail names"},
	"page-reads-like-injection": {"a web page contains text that reads like a prompt injection", ""},
	"skill-file-link":           {"SKILL.md is a link, and only regular files are changed", "run the command on the target of the link"},
	"skill-file-missing":        {"the folder has no SKILL.md", "specify the path to a folder with a SKILL.md"},
	"skill-file-changed":        {"another program changed SKILL.md while it was being fixed", "run the command again"},
	"reference":                 {"the reference validator reports an error", "fix the error that the detail describes"},
	"reference-exception":       {"the reference validator fails with an exception on this file", "fix the error that the detail describes"},
	"holds-skills":              {"the folder is not a skill, but folders in it are", "validate those folders"},
	"interpreter-missing":       {"the interpreter of a script is not installed on this machine", "install it"},
	"scripts-not-looked-at":     {"the folder has more scripts than validate checks", ""},
}
