module metier/conformance/mcp

go 1.26.5
