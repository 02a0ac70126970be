package install_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]install.Source{
		"./pdf":                          {Kind: install.Folder, Location: "/work/pdf"},
		"..":                             {Kind: install.Folder, Location: "/"},
		"pdf":                            {Kind: install.Folder, Location: "/work/pdf"},
		"~/skills":                       {Kind: install.Folder, Location: "/home/skills"},
		"/opt/skills/":                   {Kind: install.Folder, Location: "/opt/skills"},
		"pdf.zip":                        {Kind: install.Archive, Location: "/work/pdf.zip"},
		"./a/pdf.SKILL":                  {Kind: install.Archive, Location: "/work/a/pdf.SKILL"},
		"acme/skills":                    {Kind: install.Git, Location: "https://github.com/acme/skills"},
		"acme/skills.git":                {Kind: install.Git, Location: "https://github.com/acme/skills"},
		"acme/skills@v1.2":               {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "v1.2"},
		"acme/skills/a/b@v1":             {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "v1", Path: "a/b"},
		"acme/skills@v1#a/b/":            {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "v1", Path: "a/b"},
		"https://github.com/acme/skills": {Kind: install.Git, Location: "https://github.com/acme/skills"},
		"https://github.com/acme/skills/tree/main/a/b":          {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "main", Path: "a/b"},
		"https://github.com/acme/skills/blob/main/a/b/SKILL.md": {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "main", Path: "a/b"},
		"https://gitlab.com/acme/team/skills/-/tree/v2/a":       {Kind: install.Git, Location: "https://gitlab.com/acme/team/skills", Ref: "v2", Path: "a"},
		"https://git.example.com/team/skills.git@main#pdf":      {Kind: install.Git, Location: "https://git.example.com/team/skills.git", Ref: "main", Path: "pdf"},
		"git+https://git.example.com/team/skills":               {Kind: install.Git, Location: "https://git.example.com/team/skills"},
		"ssh://git@git.example.com:2222/team/skills.git@v1":     {Kind: install.Git, Location: "ssh://git@git.example.com:2222/team/skills.git", Ref: "v1"},
		"git@git.example.com:team/skills.git@v1#pdf":            {Kind: install.Git, Location: "git@git.example.com:team/skills.git", Ref: "v1", Path: "pdf"},
		"acme/skills@release/1.0":                               {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "release/1.0"},
		"https://github.com/acme/skills@release/1.0#pdf":        {Kind: install.Git, Location: "https://github.com/acme/skills", Ref: "release/1.0", Path: "pdf"},
		"ssh://git@git.example.com/skills.git@a/b":              {Kind: install.Git, Location: "ssh://git@git.example.com/skills.git", Ref: "a/b"},
		"file:///a@b/skills@refs/heads/a/b":                     {Kind: install.Git, Location: "file:///a@b/skills", Ref: "refs/heads/a/b"},
		"file:///srv/skills.git":                                {Kind: install.Git, Location: "file:///srv/skills.git"},
		"https://skills.example.com":                            {Kind: install.Index, Location: "https://skills.example.com"},
		"http://127.0.0.1:8080/team/":                           {Kind: install.Index, Location: "http://127.0.0.1:8080/team/"},
		"https://skills.example.com/pdf.tar.gz":                 {Kind: install.Archive, Location: "https://skills.example.com/pdf.tar.gz"},
		"https://skills.example.com/pdf.zip?ref=v1&raw=true":    {Kind: install.Archive, Location: "https://skills.example.com/pdf.zip?ref=v1&raw=true"},
		"https://skills.example.com/pdf.zip?sig=a%2Fb&ref=1#x":  {Kind: install.Archive, Location: "https://skills.example.com/pdf.zip", Query: "sig=a%2Fb&ref=1", Partial: true},
		"https://skills.example.com/SKILL.md?ref=a%20b":         {Kind: install.File, Location: "https://skills.example.com/SKILL.md", Query: "ref=a%20b", Partial: true},
		"https://skills.example.com/?key=k#pdf":                 {Kind: install.Index, Location: "https://skills.example.com/", Path: "pdf", Query: "key=k", Partial: true},
		"https://github.com/acme/skills?tab=readme":             {Kind: install.Git, Location: "https://github.com/acme/skills"},
		"https://skills.example.com/pdf/SKILL.md":               {Kind: install.File, Location: "https://skills.example.com/pdf/SKILL.md"},
		"oci://registry.example.com/skills/pdf":                 {Kind: install.OCI, Location: "oci://registry.example.com/skills/pdf", Ref: "latest"},
		"oci://registry.example.com/skills/pdf:1.0":             {Kind: install.OCI, Location: "oci://registry.example.com/skills/pdf", Ref: "1.0"},
		"oci://localhost:5000/pdf:1.0#a/b/":                     {Kind: install.OCI, Location: "oci://localhost:5000/pdf", Ref: "1.0", Path: "a/b"},
		"oci://[::1]:5000/pdf:1.0":                              {Kind: install.OCI, Location: "oci://[::1]:5000/pdf", Ref: "1.0"},
		"oci://registry.example.com/pdf@" + someDigest:          {Kind: install.OCI, Location: "oci://registry.example.com/pdf", Ref: someDigest},
	} {
		got, err := install.Parse(text, "/work", "/home")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]string{
		"":                                           "source_invalid",
		"-u":                                         "source_invalid",
		"--upload-pack=x":                            "source_invalid",
		"ext::sh -c x":                               "source_invalid",
		"ftp://example.com/x.zip":                    "source_invalid",
		"a/b\nc":                                     "source_invalid",
		"acme/skills@-x":                             "source_invalid",
		"acme/skills@a..b":                           "source_invalid",
		"acme/skills#../x":                           "source_invalid",
		"https://github.com/acme":                    "source_invalid",
		"https://u:p@git.example.com/x.git":          "source_password",
		"https://ghp_0123456789@github.com/a/b":      "source_password",
		"oci://u:p@registry.example.com/pdf":         "source_password",
		"oci://u@registry.example.com/pdf":           "source_password",
		"oci://registry.example.com":                 "source_invalid",
		"oci://registry.example.com/":                "source_invalid",
		"oci://registry.example.com/PDF":             "source_invalid",
		"oci://registry.example.com/a/../b":          "source_invalid",
		"oci://registry.example.com/pdf?x=y":         "source_invalid",
		"oci://registry.example.com/pdf:":            "source_invalid",
		"oci://registry.example.com/pdf:a b":         "source_invalid",
		"oci://registry.example.com/pdf#../x":        "source_invalid",
		"oci://registry.example.com/pdf@sha256:0123": "source_invalid",
		"oci://registry.example.com/pdf@sha512:" + strings.Repeat("0", 128): "source_invalid",
		"oci://registry.example.com/pdf:1@" + someDigest:                    "source_invalid",
		"https://git.example.com/x.git?token=t":                             "source_password",
		"ssh://git.example.com/x?token=t":                                   "source_password",
	} {
		_, err := install.Parse(text, "/work", "/home")
		if diff := cmp.Diff(code, metier.CodeOf(err)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParse_ShowsNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ftp://u:hidden@example.com/x", "ftp://example.com/x?token=hidden", "https://github.com/acme?token=hidden", "https://u:hid/den@example.com/x"} {
		_, err := install.Parse(text, "/work", "/home")
		if err == nil || strings.Contains(err.Error(), "hid") || strings.Contains(err.Error(), "den") {
			t.Errorf("%s: %v", text, err)
		}
	}
	s, err := install.Parse("https://example.com/pdf.zip?token=hidden", "/work", "/home")
	if diff := cmp.Diff("https://example.com/pdf.zip", s.String()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestSource_ParsesItsOwnText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"./pdf", "acme/skills/a/b@v1", "git@git.example.com:team/skills.git@v1#pdf", "https://skills.example.com", "oci://registry.example.com/pdf:1#a", "oci://registry.example.com/pdf@" + someDigest} {
		want, err := install.Parse(text, "/work", "/home")
		if err != nil {
			t.Fatal(err)
		}
		got, err := install.Parse(want.String(), "/", "/")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want, diff)
		}
	}
}
