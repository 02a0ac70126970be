package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// target is the host of a request in the canonical form that is compared, resolved, dialed, and
// recorded.
type target struct {
	host    string     // lower case, without a trailing dot; an address in its shortest form
	literal netip.Addr // set if host is an address
	port    uint16
}

// url returns the host as written in a URL.
func (t target) url() string {
	if t.literal.Is6() {
		return "[" + t.host + "]"
	}
	return t.host
}

var errHost = errors.New("this is not a host name")

// parseTarget parses host:port. preset is the default port; if it is 0, a port is required.
func parseTarget(s string, preset uint16) (target, error) {
	host, port := s, ""
	switch i := strings.LastIndexByte(s, ':'); {
	case strings.HasPrefix(s, "["):
		end := strings.IndexByte(s, ']')
		if end < 0 || strings.Contains(s[:end], "%") {
			return target{}, errHost
		}
		host, port = s[:end+1], s[end+1:]
	case i >= 0:
		host, port = s[:i], s[i:]
	}
	t := target{port: preset}
	if port != "" {
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if err != nil || port[0] != ':' || port[1] == '0' {
			return target{}, fmt.Errorf("%w: its port is not 1 to 65535", errHost)
		}
		t.port = uint16(n)
	}
	if t.port == 0 {
		return target{}, fmt.Errorf("%w: it has no port", errHost)
	}
	var err error
	t.host, t.literal, err = parseHost(host)
	return t, err
}

// parseHost converts a host to its canonical form. Names consist of ASCII letters, digits, hyphens,
// and underscores, with at most 63 bytes per label and 253 in total. A name whose last label is a
// number must be an address (the rule of the URL standard), written with four decimal parts, or in
// brackets for IPv6: 2130706433, 0x7f.1, and 0177.0.0.1 are invalid.
func parseHost(s string) (string, netip.Addr, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !ok || err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
			return "", netip.Addr{}, errHost
		}
		return a.String(), a, nil
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if s == "" || len(s) > 253 {
		return "", netip.Addr{}, errHost
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, notInName) {
			return "", netip.Addr{}, errHost
		}
	}
	if !isNumber(labels[len(labels)-1]) {
		return s, netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return "", netip.Addr{}, fmt.Errorf("%w, and an address is written as 192.0.2.1", errHost)
	}
	return s, a, nil
}

// notInName expects lower case.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// isNumber reports whether a name with this last label would be an address.
func isNumber(label string) bool {
	if !strings.ContainsFunc(label, func(r rune) bool { return r < '0' || r > '9' }) {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && !strings.ContainsFunc(hex, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// hostRules are the parsed Rules.Hosts.
type hostRules struct {
	any      bool
	exact    []string
	below    []string // ".x": every name that ends so
	literals []netip.Addr
}

// Form converts a host name or address to the canonical form that is compared, resolved, and
// recorded. Brackets around an IPv6 address are optional.
func Form(host string) (string, error) {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	form, _, err := parseHost(host)
	return form, err
}

// CheckHost validates an entry of Rules.Hosts.
func CheckHost(h string) error {
	_, err := parseHosts([]string{h}, false)
	return err
}

func parseHosts(hosts []string, any bool) (hostRules, error) {
	out := hostRules{any: any}
	for _, h := range hosts {
		name, wild := strings.CutPrefix(h, "*.")
		if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
			name = "[" + name + "]"
		}
		host, literal, err := parseHost(name)
		switch {
		case strings.Contains(name, "*"):
			return out, fmt.Errorf("host %q: a star matches whole labels and only at the start, as in *.example.com", h)
		case err != nil && strings.ContainsFunc(h, func(r rune) bool { return r > 127 }):
			return out, fmt.Errorf("host %q: write it in ASCII, in its xn-- form", h)
		case err != nil:
			return out, fmt.Errorf("host %q: %w; omit the scheme, port, and path", h, err)
		case literal.IsValid() && wild:
			return out, fmt.Errorf("host %q: an address has no subdomains", h)
		case literal.IsValid() && !public(literal):
			return out, fmt.Errorf("host %q is not a public address; a job cannot be given one", h)
		case literal.IsValid():
			out.literals = append(out.literals, literal)
		case wild && !strings.Contains(host, "."):
			return out, fmt.Errorf("host %q covers all of .%s: list the hosts, or allow every public one", h, host)
		case wild:
			out.below = append(out.below, "."+host)
		default:
			out.exact = append(out.exact, host)
		}
	}
	return out, nil
}

// judge returns why t is refused, or "" if it is allowed.
func (r hostRules) judge(t target) Code {
	switch {
	case t.literal.IsValid():
		if !slices.Contains(r.literals, t.literal) {
			return HostLiteral
		}
		return ""
	case slices.Contains(r.exact, t.host):
		return ""
	case slices.ContainsFunc(r.below, func(end string) bool { return strings.HasSuffix(t.host, end) }):
		return ""
	case r.any && strings.Contains(t.host, "."): // a name without a dot is in the local network
		return ""
	}
	return HostNotAllowed
}
