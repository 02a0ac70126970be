package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// target is whom a request is for, in the one form that is compared, resolved,
// dialed and written down.
type target struct {
	host    string     // lower case, without a dot at the end; an address in its shortest form
	literal netip.Addr // set where host is an address
	port    uint16
}

// url is how the host stands in a URL.
func (t target) url() string {
	if t.literal.Is6() {
		return "[" + t.host + "]"
	}
	return t.host
}

var errHost = errors.New("this is no host name")

// parseTarget reads host:port. Without a port it is preset; preset 0 means
// that there has to be one.
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

// parseHost brings a host to its one form. Names are ASCII letters, digits,
// hyphens and underscores in parts of 63 bytes, 253 in all. What ends in a
// number is an address or nothing (the rule of the URL standard), and an
// address is written in four decimal parts, or in brackets if it is IPv6:
// 2130706433, 0x7f.1 and 0177.0.0.1 are no hosts.
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

// notInName works on what is lower case.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// isNumber: the last part of a name would make it an address.
func isNumber(label string) bool {
	if !strings.ContainsFunc(label, func(r rune) bool { return r < '0' || r > '9' }) {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && !strings.ContainsFunc(hex, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// hostRules are Rules.Hosts, read.
type hostRules struct {
	any      bool
	exact    []string
	below    []string // ".x": every name that ends so
	literals []netip.Addr
}

// Form brings a host, a name or an address, to the one form that is compared,
// resolved and written down; an IPv6 address stands in brackets or not.
func Form(host string) (string, error) {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	form, _, err := parseHost(host)
	return form, err
}

// CheckHost says what is wrong with one of Rules.Hosts.
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
			return out, fmt.Errorf("host %q: %w; leave out scheme, port and path", h, err)
		case literal.IsValid() && wild:
			return out, fmt.Errorf("host %q: there is nothing below an address", h)
		case literal.IsValid() && !public(literal):
			return out, fmt.Errorf("host %q is not a public address; a job cannot be given one", h)
		case literal.IsValid():
			out.literals = append(out.literals, literal)
		case wild && !strings.Contains(host, "."):
			return out, fmt.Errorf("host %q names all of .%s: name the hosts, or allow every public one", h, host)
		case wild:
			out.below = append(out.below, "."+host)
		default:
			out.exact = append(out.exact, host)
		}
	}
	return out, nil
}

// judge says why t is refused; "" allows it.
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
	case r.any && strings.Contains(t.host, "."): // a name without a dot is of the local network
		return ""
	}
	return HostNotAllowed
}
