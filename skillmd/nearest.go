package skillmd

import "strings"

// knownFields are the keys with a meaning here or in other clients.
var knownFields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "dependencies", "when_to_use",
	"when-to-use", "argument-hint", "model", "context", "agent", "disable-model-invocation", "user-invocable", "paths", "platforms"}

// nearest gives the known field that an unknown key was probably meant to be, or "": the same letters in another writing
// (allowedTools, When To Use), or one letter wrong, too many, missing or swapped in a key of five or more.
func nearest(key string) string {
	plain := squeeze(key)
	if len(plain) > 40 {
		return ""
	}
	for _, k := range knownFields {
		if k == key {
			return ""
		}
	}
	for _, k := range knownFields {
		known := squeeze(k)
		if plain == known || len(known) >= 5 && len(plain) >= 5 && oneOff(plain, known) {
			return k
		}
	}
	return ""
}

func squeeze(key string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(key))
}

// oneOff reports whether one letter changed, added, removed or swapped with its neighbour makes b of a.
func oneOff(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
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
