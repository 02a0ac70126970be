package agentdirs

import (
	"maps"
	"slices"
)

// mcpFiles maps MCP clients to the file in a project in which they find servers.
var mcpFiles = map[string]string{
	"claude-code": ".mcp.json",
	"cursor":      ".cursor/mcp.json",
	"gemini":      ".gemini/settings.json",
	"opencode":    "opencode.json",
	"vscode":      ".vscode/mcp.json",
}

// MCPFile returns the slash-separated path of a client's file in a project, or "" if it has none.
func MCPFile(client string) string { return mcpFiles[client] }

// MCPFiles lists these files of all clients.
func MCPFiles() []string { return slices.Sorted(maps.Values(mcpFiles)) }
