// Package mcp judges `metier mcp` by the protocol's own suite and by its
// Inspector, which come from the npm registry as package-lock.json pins them.
// It is a module of its own, since only its tests need them.
package mcp
