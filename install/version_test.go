package install

import "testing"

func TestVersions_Has(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		versions string
		in, out  []string
	}{
		{"", []string{"1", "junk", ""}, nil},
		{"*", []string{"1", "0.1"}, nil},
		{"1.2.3", []string{"1.2.3", "v1.2.3", "1.2.3+build"}, []string{"1.2.4", "1.2.3-rc.1", "", "junk"}},
		{"1.2", []string{"1.2", "1.2.9"}, []string{"1.1.9", "1.3", "1.3.0-rc.1"}},
		{"=1.2", []string{"1.2", "1.2.0"}, []string{"1.2.1"}},
		{">=1.2 <2", []string{"1.2", "1.10.0"}, []string{"1.1", "2", "1.2.0-rc.1"}},
		{">= 1.2 < 2", []string{"1.3"}, []string{"2"}},
		{">1.2.0-alpha.2", []string{"1.2.0-alpha.10", "1.2.0-beta", "1.2.0"}, []string{"1.2.0-alpha.2", "1.2.0-alpha.1"}},
		{"<=1", []string{"1.0.0", "0.9"}, []string{"1.0.1"}},
		{"^1.2", []string{"1.2.0", "1.99"}, []string{"1.1", "2.0", "2.0.0-rc.1"}},
		{"^0.2.3", []string{"0.2.3", "0.2.9"}, []string{"0.3.0", "0.2.2"}},
		{"^0.0.3", []string{"0.0.3"}, []string{"0.0.4"}},
		{"^0", []string{"0.9"}, []string{"1.0"}},
		{"~1.2.3", []string{"1.2.3", "1.2.9"}, []string{"1.3", "1.2.2"}},
		{"~1", []string{"1.9"}, []string{"2"}},
	} {
		r, err := parseVersions(c.versions)
		if err != nil {
			t.Errorf("%q: %v", c.versions, err)
			continue
		}
		for _, v := range c.in {
			if !r.has(v) {
				t.Errorf("%q does not have %q", c.versions, v)
			}
		}
		for _, v := range c.out {
			if r.has(v) {
				t.Errorf("%q has %q", c.versions, v)
			}
		}
	}
}

func TestParseVersions_RejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{">=", "latest", "1.2.3.4", "1 || 2", ">=1,<2", "1.2.x", "9999999999", "^", "- 1"} {
		if _, err := parseVersions(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
