// Package interop has the coding agents that people use load a skill from
// `metier mcp`: Claude Code, Codex, Gemini CLI and opencode, as package-lock.json
// pins them, each with the entry that `metier mcp install` writes for it, over
// standard input and output and over HTTP.
//
// Its tests run in a network of their own that has nothing but loopback. There a
// stand-in speaks the wire format of each client's model, asks for the skill and
// keeps every request.
package interop
