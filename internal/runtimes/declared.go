package runtimes

import (
	"regexp"
	"strings"
	"sync"
)

// inline matches the start of a script's inline metadata (PEP 723).
var inline = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^# /// script[ \t]*\r?$`) })

// mostNeeds is the maximum number of declared packages to check.
const mostNeeds = 100

// declared returns the packages that a Python script declares in its inline metadata, by name,
// without versions.
func declared(code []byte) []string {
	at := inline().FindIndex(code)
	if at == nil {
		return nil
	}
	var toml strings.Builder
	for _, line := range strings.Split(string(code[at[1]:min(len(code), at[1]+16<<10)]), "\n")[1:] {
		line = strings.TrimRight(line, "\r")
		if line == "# ///" || !strings.HasPrefix(line, "#") {
			break
		}
		toml.WriteString(strings.TrimPrefix(line, "#") + "\n")
	}
	_, rest, ok := strings.Cut(toml.String(), "dependencies")
	if !ok {
		return nil
	}
	var out []string
	var quote rune
	start := 0
	for i, c := range rest {
		switch {
		case quote == 0 && c == ']':
			return out
		case quote == 0 && (c == '"' || c == '\''):
			quote, start = c, i+1
		case quote != 0 && c == quote:
			if name := Package(rest[start:i]); name != "" && len(out) < mostNeeds {
				out = append(out, name)
			}
			quote = 0
		}
	}
	return nil // the list is not closed
}

// packageName matches a name and what may follow it in a requirement.
var packageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]{0,127})\s*(?:$|[\[<>=!~;@ (])`)
})

// Package returns the name in a requirement such as "requests[socks]>=2", or "".
func Package(requirement string) string {
	m := packageName().FindStringSubmatch(requirement)
	if m == nil {
		return ""
	}
	return m[1]
}
