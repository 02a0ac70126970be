package run

import "encoding/json"

// Text returns the text of recorded content, or its JSON if it is not text.
func Text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
