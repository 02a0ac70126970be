package cli

import (
	"fmt"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/distinct"
	"metier/internal/plural"
)

// Conditions of --fail-on.
const failOnDenied = "denied"

var failOnValues = []string{failOnDenied}

// checkFailOn splits the values of --fail-on, which are lists.
func checkFailOn(flags []string) ([]string, error) {
	var out []string
	for _, f := range flags {
		for v := range strings.SplitSeq(f, ",") {
			if v = strings.TrimSpace(v); !slices.Contains(failOnValues, v) {
				return nil, wrong("usage", "values: "+strings.Join(failOnValues, ", "), "%q is not a valid value for --fail-on", v)
			}
			out = append(out, v)
		}
	}
	return distinct.Of(out), nil
}

// deniedCalls counts denied calls of all kinds.
func deniedCalls(list []event.Denial) (n int) {
	for _, d := range list {
		n += d.Count
	}
	return n
}

// deniedLine lists denied calls by tool and code, or returns "" if there are none.
func deniedLine(list []event.Denial) string {
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for _, d := range list {
		part := d.Tool + " (" + d.Code + ")"
		if d.Count > 1 {
			part = fmt.Sprintf("%d × %s", d.Count, part)
		}
		parts = append(parts, part)
	}
	return plural.Of(deniedCalls(list), "call") + ": " + oneLine(strings.Join(parts, ", "))
}
