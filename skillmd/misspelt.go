package skillmd

import (
	"slices"
	"strings"
	"unicode"

	"metier/internal/nearest"
)

// knownFields lists the keys with a meaning here or in other clients; hostFields lists those with a meaning in one client only.
var (
	knownFields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "dependencies", "when_to_use",
		"when-to-use", "argument-hint", "model", "context", "agent", "disable-model-invocation", "user-invocable", "paths", "platforms"}
	hostFields = []string{"arguments", "effort", "hooks", "shell"}
)

// meantField returns the known field that an unknown key probably means, or "". It accepts another notation (allowedTools, When
// To Use), two swapped neighbors, or one wrong, extra, or missing letter in a key of five or more.
func meantField(key string) string {
	if len(key) > 40 || slices.Contains(allFields, key) {
		return ""
	}
	plain := squeeze(key)
	for i, k := range squeezed {
		if nearest.Edits(plain, k, 1) <= 1 && (min(len(k), len(plain)) >= 5 || sameLetters(plain, k)) {
			return allFields[i]
		}
	}
	return ""
}

var allFields = slices.Concat(knownFields, hostFields)

// squeezed lists allFields in one notation.
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

// sameLetters reports whether b has the letters of a, in any order.
func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}
