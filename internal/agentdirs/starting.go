package agentdirs

import (
	"slices"
	"strings"
)

// mcpFiles maps MCP clients to the file in a project in which they find servers.
var mcpFiles = map[string]string{
	"claude-code": ".mcp.json",
	"cursor":      ".cursor/mcp.json",
	"gemini":      ".gemini/settings.json",
	"opencode":    "opencode.json",
	"vscode":      ".vscode/mcp.json",
}

// moreStarting are other files and folders of a project in which agents find programs that they start
// outside of any sandbox: servers, hooks, and plugins.
var moreStarting = []string{".amazonq", ".crush.json", ".github/hooks", ".zed/settings.json", "crush.json", "opencode.jsonc"}

// MCPFile returns the slash-separated path of a client's file in a project, or "" if it has none.
func MCPFile(client string) string { return mcpFiles[client] }

// Starting lists the files and folders of a project in which agents find programs to start. The
// folder of an agent, such as .claude, is listed as a whole, because it also has the scripts that hooks
// run, and commands and subagents with hooks of their own. .github is also for other things.
func Starting() []string {
	out := slices.Clone(moreStarting)
	for _, f := range mcpFiles {
		out = append(out, f)
	}
	for _, f := range ProjectFolders() {
		if top, _, _ := strings.Cut(f, "/"); top != ".github" {
			out = append(out, top)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
