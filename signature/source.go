package signature

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	scpForm   = regexp.MustCompile(`^([A-Za-z0-9._-]+@[A-Za-z0-9.-]+):([^:]+)$`)
	shortForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/([A-Za-z0-9._-]+|\*)$`)
	hostForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$|^\[[0-9a-f:.]+\]$`)
)

// defaultPorts are the ports that an address can omit.
var defaultPorts = map[string]string{"http": "80", "https": "443", "oci": "443", "ssh": "22", "file": ""}

// CheckSource reports why a text is not a pattern of sources. A pattern is an address, or OWNER/REPO on
// GitHub. If it ends with /*, it covers everything below that address.
func CheckSource(pattern string) error {
	_, _, err := parsePattern(pattern)
	return err
}

// Listed reports whether one of the patterns covers the address of a source. An address that another
// program could read in another way is covered by none.
func Listed(patterns []string, source string) bool {
	at, err := canonical(source)
	return err == nil && slices.ContainsFunc(patterns, func(p string) bool {
		base, below, err := parsePattern(p)
		return err == nil && (at == base || below && strings.HasPrefix(at, base+"/"))
	})
}

// parsePattern returns the address of a pattern, and whether it covers everything below.
func parsePattern(pattern string) (base string, below bool, err error) {
	text := pattern
	if shortForm.MatchString(text) {
		text = "https://github.com/" + text
	}
	text, below = strings.CutSuffix(text, "/*")
	if strings.Contains(text, "*") {
		return "", false, fmt.Errorf("%q: * is possible only at the end, after a slash", pattern)
	}
	base, err = canonical(text)
	if err != nil {
		return "", false, fmt.Errorf("%q: %w", pattern, err)
	}
	if at := base[strings.LastIndex(base, "/"):]; strings.HasPrefix(base, "oci:") && strings.ContainsAny(at, ":@") && strings.Count(base, "/") > 2 {
		return "", false, fmt.Errorf("%q: omit the tag or the digest; a pattern covers all versions", pattern)
	}
	return base, below, nil
}

// canonical returns the one form of an address.
func canonical(text string) (string, error) {
	if m := scpForm.FindStringSubmatch(text); m != nil {
		text = "ssh://" + m[1] + "/" + strings.TrimPrefix(m[2], "/")
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return "", errors.New("it is not an address")
	}
	port, ok := defaultPorts[u.Scheme]
	if !ok {
		return "", errors.New("use an address with https, ssh, file, http, or oci, or OWNER/REPO on GitHub")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":"+port)
	if name := strings.TrimSuffix(host, ":"+u.Port()); u.Scheme == "file" != (name == "") || name != "" && !hostForm.MatchString(name) {
		return "", fmt.Errorf("%q is not a host", u.Host)
	}
	user := ""
	if u.User != nil {
		if _, secret := u.User.Password(); secret || u.Scheme != "ssh" || u.User.String() != u.User.Username() {
			return "", errors.New("it has a user or a password")
		}
		user = u.User.Username() + "@"
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#") {
		return "", errors.New("it has a query or a fragment")
	}
	p := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), ".git")
	if strings.ContainsAny(u.EscapedPath(), `%\`) || slices.ContainsFunc(strings.Split(p, "/")[min(1, strings.Count(p, "/")):], func(s string) bool { return s == "" || s == "." || s == ".." }) && p != "" {
		return "", errors.New("its path has encoded characters, or parts that are \".\", \"..\", or empty")
	}
	return u.Scheme + "://" + user + host + p, nil
}
