package skillmd

import (
	"slices"
	"strings"
	"unicode"
)

// knownFields are the keys with a meaning here or in other clients.
var knownFields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "dependencies", "when_to_use",
	"when-to-use", "argument-hint", "model", "context", "agent", "disable-model-invocation", "user-invocable", "paths", "platforms"}

// nearest gives the known field that an unknown key was probably meant to be, or "": the same letters in another writing
// (allowedTools, When To Use), or one letter wrong, too many, missing or swapped in a key of five or more.
func nearest(key string) string {
	if len(key) > 40 || slices.Contains(knownFields, key) {
		return ""
	}
	plain := squeeze(key)
	for i, k := range squeezed {
		if plain == k || len(k) >= 5 && len(plain) >= 5 && oneOff(plain, k) {
			return knownFields[i]
		}
	}
	return ""
}

// squeezed are knownFields in one writing.
var squeezed = func() []string {
	out := make([]string, 0, len(knownFields))
	for _, k := range knownFields {
		out = append(out, squeeze(k))
	}
	return out
}()

func squeeze(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// oneOff reports whether one letter changed, added, removed or swapped with its neighbour makes b of a.
func oneOff(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b) > len(a)+1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 1:
		return a[i:] == b[i+1:]
	case 0:
		return i == len(a) || a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	}
	return false
}
