package skillmd

import (
	"slices"
	"strings"
	"unicode"
)

// knownFields are the keys with a meaning here or in other clients, hostFields those that only mean something in one of those.
var (
	knownFields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "dependencies", "when_to_use",
		"when-to-use", "argument-hint", "model", "context", "agent", "disable-model-invocation", "user-invocable", "paths", "platforms"}
	hostFields = []string{"arguments", "effort", "hooks", "shell"}
)

// meantField gives the known field that an unknown key was probably meant to be, or "": the same letters in another writing
// (allowedTools, When To Use), two neighbours swapped, or one letter wrong, too many or missing in a key of five or more.
func meantField(key string) string {
	if len(key) > 40 || slices.Contains(allFields, key) {
		return ""
	}
	plain := squeeze(key)
	for i, k := range squeezed {
		if plain == k || swapped(plain, k) || len(k) >= 5 && len(plain) >= 5 && oneOff(plain, k) {
			return allFields[i]
		}
	}
	return ""
}

var allFields = slices.Concat(knownFields, hostFields)

// squeezed are allFields in one writing.
var squeezed = func() []string {
	out := make([]string, 0, len(allFields))
	for _, k := range allFields {
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

// oneOff reports whether one letter changed, added or removed makes b of a.
func oneOff(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b) > len(a)+1 {
		return false
	}
	i := differ(a, b)
	if len(b) > len(a) {
		return a[i:] == b[i+1:]
	}
	return i == len(a) || a[i+1:] == b[i+1:]
}

// swapped reports whether two neighbours that changed places make b of a.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := differ(a, b)
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// differ is where a, the shorter one, first differs from b.
func differ(a, b string) int {
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i
}
