package install

import (
	"path/filepath"
	"runtime"

	"metier"
	"metier/internal/agentdirs"
)

// Client is a program that can use metier as an MCP server.
type Client struct {
	Name, Title string
	user        []string // its file below the home
	member      string   // of the file, in which entries stand by name; "": TOML, as a table of mcp_servers
	bearer      string   // how it writes the Authorization of a token that the environment variable %s holds; "": TOML has a field for it
	entry       func(Server) any
}

// Server is a program that the client starts, or the address of a running server.
type Server struct {
	Name     string   // in the client
	Command  []string // that the client starts, or none
	URL      string   // of a server that runs
	TokenEnv string   // environment variable with the token for URL, or ""

	headers map[string]string
}

// plainEntry is the entry that most clients share.
func plainEntry(s Server) any {
	return struct {
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{s.program(), s.args(), s.URL, s.headers}
}

// typedEntry also includes whether the server is started or reached at an address.
func typedEntry(s Server) any {
	kind := "stdio"
	if s.URL != "" {
		kind = "http"
	}
	return struct {
		Type    string            `json:"type"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{kind, s.program(), s.args(), s.URL, s.headers}
}

// geminiEntry has a word of its own for the address: url is documented for the
// transport before this one.
func geminiEntry(s Server) any {
	return struct {
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"httpUrl,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{s.program(), s.args(), s.URL, s.headers}
}

func opencodeEntry(s Server) any {
	kind := "local"
	if s.URL != "" {
		kind = "remote"
	}
	return struct {
		Type    string            `json:"type"`
		Command []string          `json:"command,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Enabled bool              `json:"enabled"`
	}{kind, s.Command, s.URL, s.headers, true}
}

func (s Server) program() string {
	if len(s.Command) == 0 {
		return ""
	}
	return s.Command[0]
}

func (s Server) args() []string {
	if len(s.Command) == 0 {
		return nil
	}
	return s.Command[1:]
}

// Clients lists the clients. The path of the file of VS Code depends on the system.
func Clients() []Client {
	code := []string{".config", "Code", "User", "mcp.json"}
	switch runtime.GOOS {
	case "darwin":
		code = []string{"Library", "Application Support", "Code", "User", "mcp.json"}
	case "windows":
		code = []string{"AppData", "Roaming", "Code", "User", "mcp.json"}
	}
	return []Client{
		{"claude-code", "Claude Code", []string{".claude.json"}, "mcpServers", "Bearer ${%s}", typedEntry},
		{"codex", "Codex", []string{".codex", "config.toml"}, "", "", nil},
		{"cursor", "Cursor", []string{".cursor", "mcp.json"}, "mcpServers", "Bearer ${env:%s}", plainEntry},
		{"gemini", "Gemini CLI", []string{".gemini", "settings.json"}, "mcpServers", "Bearer ${%s}", geminiEntry},
		{"opencode", "opencode", []string{".config", "opencode", "opencode.json"}, "mcp", "Bearer {env:%s}", opencodeEntry},
		{"vscode", "VS Code", code, "servers", "Bearer ${env:%s}", typedEntry},
	}
}

// File returns the path of the client's file, below the home or in a project.
func (m Client) File(home, project string, inProject bool) (string, error) {
	switch {
	case !inProject && home == "":
		return "", metier.Errorf(metier.Invalid, "home_unset", "set HOME, or install for the project", "the file of %s is in the home folder, and HOME is not set", m.Title)
	case !inProject:
		return filepath.Join(append([]string{home}, m.user...)...), nil
	case agentdirs.MCPFile(m.Name) == "":
		return "", metier.Errorf(metier.Invalid, "usage", "install for the user", "%s has no configuration file for a project", m.Title)
	}
	return filepath.Join(project, filepath.FromSlash(agentdirs.MCPFile(m.Name))), nil
}
