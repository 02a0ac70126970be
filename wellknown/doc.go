// Package wellknown publishes skills on the web, so that any client of the discovery format finds and
// installs them: as /.well-known/agent-skills/index.json (version 0.2.0) with an archive or a SKILL.md
// for each skill, and as /.well-known/skills/index.json (version 0.1) with all files.
//
// [Build] writes the files of a site into a folder, which any web server can serve. [Site.Handler]
// serves them, and answers searches as skills.sh does.
//
// A site has the skills as they were when it was built. Archives of the same skill have the same bytes.
package wellknown
