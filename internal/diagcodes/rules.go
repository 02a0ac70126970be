// Package diagcodes says in plain words what each code of a skill's diagnostics
// means and how to mend it. It is data: nothing is decided here.
package diagcodes

// Rule is one rule that can decide what becomes of a skill, or that can find
// fault with it.
type Rule struct {
	Why string // what the rule is, one sentence without a full stop
	Fix string // the way out, one sentence without a full stop; "" when nothing needs mending
}

// Of returns what is known of a code. A code of a later release, or of a source
// that is not ours, is unknown: its diagnostic speaks for itself.
func Of(code string) (r Rule, known bool) {
	for _, t := range []map[string]Rule{outcome, naming, served, unlisted, harnesses, parsing, repaired, writing, judging, advice, finding, roots, files, nowhere, catalog, notes} {
		if r, known = t[code]; known {
			return r, true
		}
	}
	return Rule{}, false
}

// Repaired reports whether a code says that a frontmatter was read only after a repair.
func Repaired(code string) bool {
	_, is := repaired[code]
	return is
}

// Naming reports whether a code is about a skill's name beside those of other
// skills.
func Naming(code string) bool {
	_, is := naming[code]
	return is
}

// What decides between skills, and what people decided.
var outcome = map[string]Rule{
	"unique-name":          {"no other skill has this name", ""},
	"first-of-name":        {"several skills have this name; this one has a folder of that name, or comes first in the order of the roots and tiers (setting precedence)", ""},
	"duplicate-skill-name": {"another skill has this name and comes first in the order of the roots and tiers (setting precedence)", "rename one of the two, or name only the root of this one with --skills-root"},
	"name-reserved":        {"names that begin with mcp: are those of skills of MCP servers (SEP-2640: none stands for another)", "give this skill another name"},
	"name-protected":       {"the name belongs to a skill of a more trusted tier (setting protect_names)", "give this skill another name"},
	"disabled":             {"what a person decided about a skill counts", "metier enable with its name or ID"},
	"skill-listed-twice":   {"a skill's folder counts once, however many roots and links lead to it", ""},
	"not-recorded":         {"a run keeps the skills it began with", "start a new run, or resume with --on-drift reload"},
	"other-platform":       {"the skill says on which operating systems it works (setting platform_filter)", "load it by name: metier run --skill NAME; or set platform_filter to off"},
	"trusted":              {"the operator trusts exactly these files (metier trust)", ""},
	"trust-lapsed":         {"trust is given to files as they were, and ends when one changes", "look at what changed, then: metier trust NAME; or end it: metier trust NAME --revoke"},
	"hidden":               {"it is kept from the model and may still be named", "load it by name: metier run --skill NAME"},
	"refused":              {"it cannot be used", "mend what the diagnostics name"},
}

// What makes the name of a skill doubtful beside other skills.
var naming = map[string]Rule{
	"name-taken":        {"a skill keeps a name other than its folder's only if no other skill of its tier or a more trusted one has that name or folder", "rename the skill or its folder so that both are the same; until then it loads by its ID only"},
	"confusable-name":   {"people and models take names that look alike for one another (Unicode Technical Standard #39)", "rename one of the two skills"},
	"mixed-script-name": {"letters of several scripts look alike, so a name has letters of one", "write the name with letters of one script"},
}

// What can be wrong with a server of the Model Context Protocol and the skills it brings.
var served = map[string]Rule{
	"mcp-entry-invalid":   {"a server says of each skill its address, its frontmatter, and every file with digest and size (SEP-2640)", "tell whoever runs the server; 'metier mcp inspect' shows what it says"},
	"mcp-skill-too-large": {"a skill of a server has at most 512 files and 16 MiB", "tell whoever runs the server to split the skill"},
	"mcp-list-failed":     {"a server lists its skills within its time, and answers for those that the configuration names", "try 'metier mcp inspect' with its name"},
	"mcp-skill-changed":   {"a skill of a server stays as it was loaded until the run ends", "begin a new run, and approve anew what was approved"},
	"mcp-skill-dynamic":   {"a skill that its server makes anew each time cannot be verified", ""},
	"mcp-no-skills":       {"skills were asked of a server that declares none", "take skills: true out of its configuration"},
	"mcp-server-failed":   {"a server that cannot be used is left out, and the run goes on", "try 'metier mcp inspect' with its name"},
	"mcp-server-timeout":  {"a server has so much time to begin (startTimeoutMs)", "raise startTimeoutMs, or look at what the server waits for"},
	"mcp-skills-cut":      {"of a server's skills the first 10,000 are taken, from a list that ends", "tell whoever runs the server"},
	"mcp-tools-cut":       {"of a server's tools the first 512 are taken", "tell whoever runs the server"},
	"mcp-tool-refused":    {"a tool has a name and a JSON schema of an object", "tell whoever runs the server"},
	"mcp-tool-clash":      {"two tools cannot have one name; the first has it", "give the server another label, or tell whoever runs it"},
	"mcp-cache-altered":   {"a file of a server's skill that is kept on disk is hashed at every read", "it was fetched anew; look for what writes below the folder that 'metier doctor' names"},
	"mcp-process-left":    {"the programs of servers end with the run, and what they start with them", "look for it and end it by hand; the server should not put itself into the background"},
	"mcp-tool-drifted":    {"a run that goes on has the tools it began with, as they were", "begin a new run, or go on with --on-drift reload, which takes the tools as they are now"},
	"mcp-tools-new":       {"tools that a server adds while a run goes on are not taken up", "begin a new run"},
	"name-by-path":        {"two skills of one server have one name, so both are named by their paths", ""},
}

// Why skills/list of 'metier mcp' omits a skill that clients can still load by its name.
var unlisted = map[string]Rule{
	"mcp-unlisted-name":        {"skills/list has skills whose name is text of 1 to 64 lowercase letters a-z, digits, and single hyphens: clients reject others", "rename the skill"},
	"mcp-unlisted-description": {"skills/list has skills whose description is text of 1 to 1,024 characters: clients reject others, some the whole list", "write a description of that length"},
	"mcp-unlisted-frontmatter": {"clients read the frontmatter again and compare it with skills/list, so it must mean the same to every YAML reader", "quote the value, or repair the frontmatter; 'metier validate' shows the line"},
	"mcp-unlisted-file-name":   {"clients expect the file name SKILL.md", "rename the file to SKILL.md"},
	"mcp-unlisted-hidden":      {"skills that are hidden from models are not in skills/list", ""},
	"mcp-unlisted-size":        {"clients accept at most 512 files and 16 MiB per skill (SEP-2640)", "split the skill, or remove files from its folder"},
	"mcp-unlisted-injection":   {"a file that reads like an injection is withheld from clients (setting injection), so the skill could not be verified", "review the file; if it is honest, trust the skill (metier trust) or change the setting"},
	"mcp-unlisted-unreadable":  {"every file in skills/list must be readable", "check the file's permissions"},
	"mcp-unlisted-address":     {"two skills would share the address of a file", "rename one of the two folders"},
}

// What can be wrong with a harness.
var harnesses = map[string]Rule{
	"harness-missing":          {"a harness is a folder with a file HARNESS.md", "write one: name, description, and a body that says what the agent is for; 'metier harness init' does"},
	"harness-too-large":        {"HARNESS.md stands in every request, so it has a largest size", "move long text into references"},
	"harness-unreadable":       {"what a harness is made of are regular files and folders that can be read", "look at its mode and its kind, and where it leads if it is a link"},
	"harness-folder-ignored":   {"in layout v1 a harness has skills/ and references/ alone", "move the folder into one of them, or use layout v2 (setting harness_layout)"},
	"harness-file-ignored":     {"in layout v1 the folders below skills/ hold skills and SKILLS.md", "move the file into a skill, or below references/"},
	"harness-detector":         {"a line of .leaf-detectors is type=relative/path", "mend the line, or begin it with #"},
	"harness-name-unusable":    {"what is addressed by its path has a name that can stand in one", "rename it"},
	"harness-entries-exceeded": {"so many names of a harness are looked at and no more", "make the harness smaller, or give it to the agent in parts"},
	"harness-depth-exceeded":   {"folders are looked into so deep and no deeper (setting max_depth)", "move it up"},
	"harness-bytes-exceeded":   {"so much frontmatter of a harness is read and no more", "make the harness smaller"},
	"harness-link":             {"a link is followed where it stays in the harness (setting symlinks), and no link out of it is", "put a copy in its place"},
	"harness-link-duplicate":   {"each folder is in a harness once, however many links lead to it", ""},
	"harness-group-summary":    {"a group says in a file of its own what is in it: SKILLS.md, REFERENCES.md, or what its top folder is called (setting group_summary)", "write it: a description in its frontmatter, and what to find below"},
	"harness-skill-undetected": {"in layout v2 a folder with a SKILL.md is a skill only where .leaf-detectors says so", "add the line skill=SKILL.md to .leaf-detectors"},
	"harness-layout-assumed":   {"a harness with nothing but skills and references may have either layout, and v1 is assumed (setting harness_layout)", "add .leaf-detectors with the line skill=SKILL.md, and every tool finds the same skills"},
	"harness-not-regular":      {"a document is a regular file", "take it out"},
	"harness-description":      {"a description in the frontmatter of Markdown says when to read it", "add one"},
	"harness-skill-file":       {"a leaf of the type skill has a SKILL.md", "write one, or give its detector another type"},
	"harness-both-files":       {"a folder is a group or a skill, and SKILLS.md makes it a group", "take one of the two files out"},
}

// What the text of a SKILL.md can break.
var parsing = map[string]Rule{
	"empty-file":                   {"SKILL.md has to say something", "write a frontmatter with name and description, and instructions below it"},
	"not-utf8":                     {"SKILL.md has to be UTF-8 text", "save the file as UTF-8"},
	"nul-byte":                     {"SKILL.md has to be text, without NUL bytes", "remove the NUL byte"},
	"no-frontmatter":               {"a skill begins with a frontmatter between two --- lines", "begin the file with ---, name, description and ---"},
	"unclosed-frontmatter":         {"the frontmatter ends with a line that holds only ---", "add the closing --- line"},
	"frontmatter-too-large":        {"the frontmatter has to end within the first bytes of the file, which are all that is read", "close it with a --- line earlier, and move long text below it"},
	"skill-too-large":              {"a SKILL.md has a largest size, beyond which it is never loaded", "move long text into files beside it, under references/"},
	"frontmatter-empty":            {"the frontmatter holds the name and the description", "write name and description between the two --- lines"},
	"frontmatter-not-mapping":      {"the frontmatter is made of key: value lines", "write each field as key: value on a line of its own"},
	"invalid-yaml":                 {"the frontmatter has to be YAML", "mend the line that is named; put quotes around a value with a colon, a # or a bracket in it"},
	"control-character":            {"YAML allows no control characters", "remove the character that is named"},
	"duplicate-key":                {"a key stands once in a frontmatter", "remove one of the two lines"},
	"yaml-complex-key-refused":     {"keys are plain words", "write the key as a plain word"},
	"yaml-alias-refused":           {"a frontmatter has no aliases: they can grow without end", "write the value out"},
	"yaml-anchor-refused":          {"a frontmatter has no anchors", "remove the &name, or put quotes around the value"},
	"yaml-tag-refused":             {"a frontmatter has no tags", "remove the !tag, or put quotes around the value"},
	"yaml-directive-refused":       {"a frontmatter has no directives", "remove the line that begins with %"},
	"yaml-merge-key-refused":       {"a frontmatter has no merge keys", "write the fields out"},
	"yaml-second-document-refused": {"a frontmatter is one document", "remove what begins the second one"},
	"yaml-too-deep":                {"values in a frontmatter are nested a few levels at most", "make the value flatter"},
	"yaml-too-many-values":         {"a frontmatter has a bounded number of values", "move long lists below the frontmatter"},
	"field-type":                   {"the field has to be of another kind; it is kept as it is and has no effect", "write the value in the form that is named"},
}

// What was repaired so that a skill could be read. With strict validation each of
// them refuses.
var repaired = map[string]Rule{
	"unquoted-colon":        {"a value with a colon and a blank in it stands in quotes", "put quotes around the value"},
	"unquoted-indicator":    {"a value that begins with a sign of YAML's own stands in quotes", "put quotes around the value"},
	"text-after-flow":       {"nothing follows a list in brackets", "put quotes around the whole value"},
	"loose-json":            {"a list or map in brackets is written as JSON, without a comma at its end", "remove the comma, or write one entry a line"},
	"surrogate-escape":      {"a character is written as itself, not as two halves of an escape", "write the character itself"},
	"unreadable-field":      {"every field can be read; this one is kept as text and has no effect", "mend the value that is named"},
	"fenced-frontmatter":    {"a skill is no block of code", "remove the fence around the file"},
	"frontmatter-not-first": {"the --- line is the first of the file", "move what stands before it below the frontmatter"},
	"closing-line-missing":  {"the frontmatter ends with a line that holds only ---", "add the closing --- line"},
}

// Why a field is not written into a SKILL.md.
var writing = map[string]Rule{
	"edit-unreadable": {"a field is written only into a frontmatter that can be read as it stands", "mend it first: metier fix --write PATH"},
	"edit-layout":     {"fields are written as lines of their own", "write each field as key: value on a line of its own"},
	"edit-key":        {"a field is renamed only if it is there and its new name is free", "look at the names of the fields"},
	"edit-value":      {"a value is written only if YAML reads it back as the same value", "use another value: text has to be UTF-8, and a map has each key once"},
	"edit-unkept":     {"a change of one field alters nothing else in the file", "make the change by hand"},
}

// What `metier validate` finds beyond that.
var advice = map[string]Rule{
	"compatibility-empty":     {"a compatibility that is there says something", "write what the skill needs, or leave the field out"},
	"name-not-portable":       {"the specification allows the name, and other readers of skills may not", "use lower-case letters without marks, digits and hyphens"},
	"allowed-tools-separator": {"tools are separated by blanks", "put a blank in the place of each comma"},
	"broken-link":             {"a relative link leads to a file of the skill", "add the file, or mend the link"},
	"link-leaves-skill":       {"a skill's links stay in its folder: what lies elsewhere does not travel with it", "bring the file into the folder, or say where it is in words"},
	"missing-resource":        {"a path that the instructions name is there", "add the file, or mend the path"},
	"misspelt-field":          {"a field is known by its exact name", "use the name that is proposed"},
	"description-when":        {"a description says when to use the skill: it is all that the model chooses by", "add a sentence such as: Use when …"},
	"description-short":       {"a description is long enough to choose by", "say what the skill does and when to use it"},
	"many-tokens":             {"instructions are short enough to be read whole", "move details into files that are read when they are needed"},
	"links-not-looked-at":     {"links are looked at in the first part of long instructions", "move parts of them into files below references"},
	"long-instructions":       {"instructions are short; long texts are read when they are needed", "move parts of it into files below references"},
	"more":                    {"a finding is reported a few times, then counted", "mend the ones that are named and look again"},
}

// What a skill that can be read may break, under the settings of parsing and
// naming.
var judging = map[string]Rule{
	"missing-name":            {"a skill has a name (setting missing_name)", "write name: and the folder's name into the frontmatter"},
	"missing-description":     {"a skill has a description, which is all a model chooses by (setting missing_description)", "write description: what it does and when to use it"},
	"invalid-name":            {"a name has 1 to 64 lower-case letters, digits and single hyphens (settings validation, name_charset)", "rename the skill and its folder"},
	"name-unusable":           {"a name has to be short enough to be shown and asked for", "give it a name of at most 64 characters"},
	"name-directory-mismatch": {"the name is the name of the folder (setting identity)", "rename the folder or the skill, so that both are the same"},
	"description-too-long":    {"a description has at most 1,024 characters (setting validation)", "say what it does and when to use it in fewer words, and move the rest below the frontmatter"},
	"compatibility-too-long":  {"a compatibility note is short (settings validation, compatibility_max)", "shorten it, and move the rest below the frontmatter"},
	"unexpected-field":        {"only the fields of the specification are taken (setting unknown_fields)", "move the field below metadata, or remove it"},
}

// What looking for skills can meet.
var finding = map[string]Rule{
	"unreadable-skill":             {"SKILL.md has to be a regular file that can be read", "look at its mode and its kind; copy the file here if it is a link or a pipe"},
	"unreadable-directory":         {"a folder has to be readable to be looked into", "make it readable and searchable: chmod u+rx"},
	"skill-file-name":              {"only a file of that very name makes a skill", "rename the file to SKILL.md, or set file_names to lower_too"},
	"skill-other-file-system":      {"a scan does not enter another file system that is mounted below a root", "name the folder as a root of its own, with --skills-root"},
	"skills-root-not-folder":       {"a skills root is a folder that holds skill folders", "make it a folder, or remove it"},
	"skill-outside-root":           {"SKILL.md has to lie in its root, after links", "copy the file into the skill's folder"},
	"skill-scan-outside-root":      {"a link to a skill's folder may lead only into a root that is in use", "move the folder in, or name the one it leads to as another --skills-root"},
	"skill-symlink-ignored":        {"links are not followed under this setting", "copy what it leads to, or set symlinks to in_bounds"},
	"unresolvable-skill-path":      {"the link leads nowhere", "repair or remove the link"},
	"unresolvable-skill-scan-path": {"the link leads nowhere, or in a circle", "repair or remove the link"},
	"skill-link-duplicate":         {"a folder is listed once, however many links lead to it", ""},
	"symlink-cycle":                {"a link back to a folder above it would never end", "remove the link"},
	"scan-limit-exceeded":          {"so many folders are looked into and no more (setting max_dirs)", "name a folder further down as --skills-root, or raise max_dirs"},
	"max-depth-exceeded":           {"folders are looked into so deep and no deeper (setting max_depth)", "move the skill up, name a folder further down as --skills-root, or raise max_depth"},
}

// What can be said of a root as a whole.
var roots = map[string]Rule{
	"root-listed-twice": {"a folder is one root, however many paths lead to it", ""},
	"root-unusable":     {"a root that nobody named is a folder in the project it was found in, and can be read", "look at the folder; or name where it leads to as --skills-root, or in the configuration"},
	"root-unsafe":       {"skills are taken from a folder above the workspace, or for the whole machine, only where no stranger can put any", "chmod o-w, or name the folder as --skills-root or in the configuration"},
	"state-unreadable":  {"the file that says which skills are switched off or trusted can be read", "mend the file; until then nothing in it counts"},
}

// What the files beside a SKILL.md can be. None of these keeps the skill from
// being used.
var files = map[string]Rule{
	"resource-too-large":                  {"a file of a skill has a largest size", "make it smaller, or keep it elsewhere"},
	"resource-file-limit-exceeded":        {"a skill has so many files and no more (setting max_resources)", "move what no model reads out of the skill's folder"},
	"resource-folder-skipped":             {"folders of version control and packages are no part of a skill", ""},
	"unreadable-skill-resource":           {"a file of a skill is a regular file that can be read", "look at its mode and its kind"},
	"unreadable-skill-resource-directory": {"a folder has to be readable to be looked into", "make it readable and searchable: chmod u+rx"},
	"unresolvable-skill-resource":         {"a file of a skill can be named and is there", "repair or remove the link, or rename the file"},
	"skill-resource-outside-root":         {"a file of a skill lies in the skill's folder, after links", "copy the file into the skill's folder"},
}

// Why there is no skill at a path.
var nowhere = map[string]Rule{
	"outside-roots":  {"skills are looked for in the roots only", "name its folder as --skills-root, or in the configuration"},
	"inside-skill":   {"a skill's folder is not searched for more skills, since what lies in it are its files (setting nested_skills)", "move the folder beside the other skill, or set nested_skills to yes"},
	"group-folder":   {"a folder without a SKILL.md of its own is looked through, and is no skill itself", ""},
	"no-skill-file":  {"a folder is a skill when it holds a file SKILL.md", "write one: name, description, and instructions"},
	"skill-file":     {"a file of a skill is no skill; a model may read it while the skill is active", ""},
	"not-skill-file": {"a skill is a folder that holds a file SKILL.md", "put the text into SKILL.md in a folder of its own"},
	"folder-skipped": {"folders of this name are never looked into", "move the skill out of it"},
	"children-only":  {"only the folders right below the root are looked at (setting scan)", "move the folder up, or set scan to recursive"},
	"not-a-folder":   {"a path leads through folders", "give the path of the skill's folder"},
	"path-missing":   {"there is nothing at this path", "give the path of a folder that exists"},
	"not-listed":     {"it was not there, or not like this, when the roots were listed", "run the command again"},
}

// What the model is told of a skill that could be used.
var catalog = map[string]Rule{
	"listed":                   {"loaded skills are in the catalog, unless something keeps them out", ""},
	"not-loaded":               {"only loaded skills are in the catalog", ""},
	"disable-model-invocation": {"the skill says disable-model-invocation: it is for people to load", "load it by name: metier run --skill NAME"},
	"denied":                   {"the operator denied this skill", "take it off deny in the configuration, a policy file, or the metier.yaml of the workspace"},
	"no-catalog":               {"the settings tell the model of no skills, or no tool of this profile loads one (settings catalog_format, catalog_place)", "load it by name: metier run --skill NAME"},
	"listed-cut":               {"loaded skills are in the catalog, their descriptions as long as the settings and the budget allow (settings catalog_desc_max, catalog_budget)", "begin the description with what matters, or raise the budget"},
	"listed-by-name":           {"all descriptions together are longer than the catalog may be, so it gives names alone (setting catalog_budget)", "raise catalog_budget, or name fewer roots; the model finds descriptions with the tool that searches skills"},
	"search-only":              {"the catalog has no room for it, but the model finds it with the tool that searches skills (settings catalog_max, catalog_budget)", "raise catalog_budget, or load it by name: metier run --skill NAME"},
	"catalog-full":             {"the catalog has room for so many entries and no more, and the model has no tool that searches skills (settings catalog_max, catalog_budget)", "raise them, allow search_skills, or load it by name: metier run --skill NAME"},
	"injection-blocked":        {"what it says of itself reads like an injection, and text of its tier that does is kept from the model (setting injection)", "read it; if it is honest, reword it, or give its root a tier that is trusted"},
	"injection-like-text":      {"text that tells a model to drop its instructions, to tell its prompt or to hide what it does is reported (setting injection)", "read it before you trust it; reword it if it is honest"},
}

// Notes about single files, and what validate and fix report.
var notes = map[string]Rule{
	"wrapper-tag-neutralized":   {"text that contains a tag of metier's own markup is escaped before a model reads it", ""},
	"resource-digest-mismatch":  {"a file changed after the skill was indexed", "start a new run, or restore the file"},
	"resource-late":             {"a file was added after the skill was indexed", "start a new run to index it"},
	"skill-not-staged":          {"the files of a skill could not be copied for its programs", "check the files that the detail names"},
	"page-reads-like-injection": {"a web page contains text that reads like a prompt injection", ""},
	"skill-file-link":           {"SKILL.md is a link, and only regular files are changed", "run the command on the target of the link"},
	"skill-file-missing":        {"the folder has no SKILL.md", "give the path of a folder with a SKILL.md"},
	"skill-file-changed":        {"another program changed SKILL.md while it was being fixed", "run the command again"},
	"reference":                 {"the reference validator reports an error", "fix the error in the detail"},
	"reference-exception":       {"the reference validator fails with an exception on this file", "fix the error in the detail"},
	"holds-skills":              {"the folder is not a skill, but folders in it are", "validate those folders"},
	"interpreter-missing":       {"the interpreter of a script is not installed on this machine", "install it"},
	"scripts-not-looked-at":     {"the folder has more scripts than validate checks", ""},
}
