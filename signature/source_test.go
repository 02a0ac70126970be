package signature_test

import (
	"testing"

	"metier/signature"
)

// req: A-180
func TestListed_CoversNoMoreThanItsText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, source string
		want            bool
	}{
		{"https://github.com/acme/skills", "https://github.com/acme/skills", true},
		{"acme/skills", "https://github.com/acme/skills.git", true},
		{"acme/skills", "https://github.com/acme/skills/", true},
		{"acme/skills", "https://github.com/acme/skills-evil", false},
		{"acme/*", "https://github.com/acme/skills", true},
		{"acme/*", "https://github.com/acme-evil/skills", false},
		{"acme/*", "https://github.com/ACME/skills", false},
		{"acme/*", "http://github.com/acme/skills", false},
		{"acme/*", "https://github.com:443/acme/skills", true},
		{"acme/*", "https://GitHub.com/acme/skills", true},
		{"acme/*", "https://github.com:8443/acme/skills", false},
		{"acme/*", "https://github.com@evil.example/acme/skills", false},
		{"acme/*", "https://a@github.com/acme/skills", false},
		{"acme/*", "https://github.com.evil.example/acme/skills", false},
		{"acme/*", "https://evil.example/github.com/acme/skills", false},
		{"acme/*", "https://github.com/acme/../evil/skills", false},
		{"acme/*", "https://github.com/acme/%2e%2e/evil/skills", false},
		{"acme/*", "https://github.com/acme%2fskills", false},
		{"acme/*", "https://github.com/acme//skills", false},
		{"acme/*", `https://github.com/acme/..\evil`, false},
		{"acme/*", "https://github.com/acme/skills?x=1", false},
		{"acme/*", "https://github.com/acme/skills#x", false},
		{"acme/*", "git@github.com:acme/skills.git", false},
		{"git@github.com:acme/*", "git@github.com:acme/skills.git", true},
		{"git@github.com:acme/*", "ssh://git@github.com/acme/skills", true},
		{"git@github.com:acme/*", "ssh://root@github.com/acme/skills", false},
		{"git@github.com:acme/*", "git@github.com:acme-evil/skills.git", false},
		{"https://skills.example.com", "https://skills.example.com", true},
		{"https://skills.example.com", "https://skills.example.com/", true},
		{"https://skills.example.com", "https://skills.example.com/a.zip", false},
		{"https://skills.example.com/*", "https://skills.example.com/a/b.zip", true},
		{"https://skills.example.com/*", "https://skills.example.com.evil.example/a", false},
		{"https://skills.example.com/*", "https://skills.example.com", true},
		{"http://127.0.0.1:80/*", "http://127.0.0.1/a", true},
		{"http://[::1]:8080/*", "http://[::1]:8080/a", true},
		{"file:///srv/skills/*", "file:///srv/skills/a.git", true},
		{"file:///srv/skills/*", "file:///srv/skills-evil/a", false},
		{"oci://localhost:5000/pdf", "oci://localhost:5000/pdf", true},
		{"oci://localhost:5000/*", "oci://localhost:5000/pdf", true},
		{"oci://registry.example.com/acme/*", "oci://registry.example.com/acme/pdf", true},
	}
	for _, tt := range tests {
		if err := signature.CheckSource(tt.pattern); err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
		}
		if got := signature.Listed([]string{"https://other.example/x", tt.pattern}, tt.source); got != tt.want {
			t.Errorf("%s covers %s: %v, want %v", tt.pattern, tt.source, got, tt.want)
		}
	}
}

func TestCheckSource_RefusesPatternsThatCoverMoreThanTheySeemTo(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "*", "/*", "https://*", "https://*/x", "https://github.com/acme*", "https://github.com/*/skills", "https://*.example.com/x", "acme", "acme*/x",
		"https://user:secret@example.com/x", "https://user@example.com/x", "https://example.com/a/../b", "https://example.com/%61", "https://example.com/a?b", "https://example.com/a#b",
		"ext::sh -c x", "ftp://example.com/x", "javascript:x", "https:///x", "https://exa mple.com/x", "https://exämple.com/x", "https://-x/y", "/srv/skills", "./skills", "oci://example.com/acme/pdf:1.0", "oci://example.com/acme/pdf@sha256:0"} {
		if signature.CheckSource(p) == nil {
			t.Errorf("%q is accepted", p)
		}
	}
}
