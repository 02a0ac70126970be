package install

import (
	"net/url"
	"regexp"
	"slices"

	"metier"
)

// plainParameters are those parts of a query that choose a file, and contain no secret.
var plainParameters = []string{"archive", "archive_format", "at", "branch", "commit", "dl", "download", "export", "file", "filename", "format", "inline", "lang", "name", "path", "raw", "ref", "ref_type", "rev", "sha", "tag", "v", "version", "web"}

var plainValue = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,64}$`)

// plainQuery reports whether a query can be stored and shown. Any other one may be a secret, such as the
// signature of an address.
func plainQuery(u *url.URL) bool {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false
	}
	for name, all := range values {
		if !slices.Contains(plainParameters, name) || slices.ContainsFunc(all, func(v string) bool { return !plainValue.MatchString(v) }) {
			return false
		}
	}
	return true
}

// address returns where the source is requested.
func (s Source) address() string {
	if s.Query == "" {
		return s.Location
	}
	return s.Location + "?" + s.Query
}

// hideQuery moves a query that may be a secret out of the location.
func (s Source) hideQuery(u *url.URL) Source {
	if u.RawQuery != "" && !plainQuery(u) {
		c := *u
		c.RawQuery, c.ForceQuery, c.Fragment, c.RawFragment = "", false, "", ""
		s.Location, s.Query, s.Partial = c.String(), u.RawQuery, true
	}
	return s
}

// whole returns an error if a source in a lock lacks a part of its address.
func (s Source) whole() error {
	if !s.Partial || s.Query != "" {
		return nil
	}
	return metier.Fieldf(metier.Unavailable, "Request.Source", "source_incomplete", "install it again with 'metier add' and the whole address", "the address of %s had a query that may be a secret, and was not stored", s)
}

// partialNote is what a user should know about a source with such a query.
func (s Source) partialNote() string {
	return "the query of the address is not stored, because it may be a secret: to install or update the skill again, use 'metier add' with the whole address"
}

var (
	userinfo = regexp.MustCompile(`://[^/@\s]*@|://[^@\s]*:[^@\s]*@`)
	queries  = regexp.MustCompile(`(://[^\s?'"]*)\?[^\s'"#]*`)
)

// withoutSecrets removes credentials and queries from the addresses in a text.
func withoutSecrets(text string) string {
	return queries.ReplaceAllString(userinfo.ReplaceAllString(text, "://"), "$1")
}
