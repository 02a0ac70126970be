// Package skillsext has the constants of the MCP extension for skills (SEP-2640), which servers and
// hosts must agree on.
package skillsext

// Name is the identifier of the extension.
const Name = "io.modelcontextprotocol/skills"

// Limits of one skill. Every host supports them, and servers should not exceed them.
const (
	MaxFiles = 512
	MaxBytes = 16 << 20
)
