package agentdirs

import "slices"

// mcpFiles maps MCP clients to the file in a project in which they find servers.
var mcpFiles = map[string]string{
	"claude-code": ".mcp.json",
	"cursor":      ".cursor/mcp.json",
	"gemini":      ".gemini/settings.json",
	"opencode":    "opencode.json",
	"vscode":      ".vscode/mcp.json",
}

// moreStarting are other files and folders of a project that name programs, which an agent then
// starts outside of any sandbox: servers, hooks, and plugins.
var moreStarting = []string{
	".amazonq/mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json", ".cursor/hooks.json",
	".junie/mcp/mcp.json", ".kilocode/mcp.json", ".kiro/settings/mcp.json", ".opencode/opencode.json", ".opencode/opencode.jsonc",
	".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".opencode/tools", ".roo/mcp.json", ".zed/settings.json", "opencode.jsonc",
}

// MCPFile returns the slash-separated path of a client's file in a project, or "" if it has none.
func MCPFile(client string) string { return mcpFiles[client] }

// Starting lists the files and folders of a project that name programs for agents to start.
func Starting() []string {
	out := slices.Clone(moreStarting)
	for _, f := range mcpFiles {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}
