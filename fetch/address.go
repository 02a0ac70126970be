package fetch

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"metier"
	"metier/internal/egress"
)

// address is a URL that can be asked for: its host in the one form that policy
// and the proxy compare, without credentials and fragment.
type address struct {
	*url.URL
	host string
}

// parse reads an address. What policy has no say in is refused here: other
// schemes and ports, credentials, and addresses that are not public.
func parse(raw string) (address, error) {
	no := func(code, hint, format string, a ...any) (address, error) {
		return address{}, fault(metier.Invalid, code, hint, format, a...)
	}
	if len(raw) > urlMax {
		return no("url_invalid", "", "the address has more than %d bytes", urlMax)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\\' }) {
		return no("url_invalid", "write spaces as %20", "the address holds white space, a control character or a backslash")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return no("url_invalid", "", "the address cannot be read")
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return no("scheme_not_allowed", "", "a URL starts with http:// or https://")
	case u.User != nil:
		return no("url_credentials", "remove the part before the @", "the address holds credentials")
	}
	host, err := egress.Form(u.Hostname())
	if err != nil {
		return no("host_invalid", "write the host in ASCII, in its xn-- form", "the address names no host: %w", err)
	}
	if err := egress.CheckHost(host); err != nil {
		return no("address_not_public", "", "%s is not a public address", host)
	}
	port := u.Port()
	if port != "" && port != "80" && port != "443" || strings.HasSuffix(u.Host, ":") {
		return no("port_not_allowed", "", "only the ports 80 and 443 can be reached")
	}
	clean := *u
	clean.Host, clean.RawQuery, clean.Fragment, clean.RawFragment = host, query(u.RawQuery), "", ""
	if strings.Contains(host, ":") {
		clean.Host = "[" + host + "]"
	}
	if port != "" {
		clean.Host += ":" + port
	}
	if clean.Path == "" {
		clean.Path = "/"
	}
	return address{&clean, host}, nil
}

// query escapes what would be read as something else where the address is
// shown; net/url leaves it as it was written.
func query(raw string) string {
	var b strings.Builder
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("<>\"'`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
