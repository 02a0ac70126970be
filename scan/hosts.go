package scan

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Limits of hosts.
const (
	maxHosts   = 200    // that a report lists
	knownHosts = 10_000 // that are counted
)

// addressForm matches an address in text.
var addressForm = regexp.MustCompile("(?i)\\b(?:https?|wss?|ftps?|sftp|ssh|git)://[^\\s\"'<>`|\\\\)\\]}]+")

// addresses notes the hosts of the addresses in a file. A host that code puts together when it runs has no
// name here.
func (s *scanner) addresses(f *source) {
	for _, a := range addressForm.FindAllString(f.text, -1) {
		h := hostOf(a)
		name := strings.Trim(h.name, ".")
		odd := func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(".-_:", r)
		}
		if name != "" && len(s.hosts) < knownHosts && !h.local && len(name) <= 253 && !strings.ContainsFunc(name, odd) {
			s.hosts[name] = true
		}
	}
}

// listHosts sets the hosts of a report.
func (s *scanner) listHosts(r *Report) {
	r.Hosts = append([]string{}, slices.Sorted(maps.Keys(s.hosts))...)
	if more := len(r.Hosts) - maxHosts; more > 0 {
		r.Hosts, r.UnlistedHosts = r.Hosts[:maxHosts], more
	}
}
