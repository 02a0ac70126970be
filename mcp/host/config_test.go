package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/mcp/host"
)

func TestParseReadsTheShapePeopleHave(t *testing.T) {
	t.Parallel()
	got, err := host.Parse("f.json", []byte(`{"mcpServers": {"b": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"a": {"command": "npx", "args": ["-y", "thing"], "env": {"K": "${K:-v}"}, "cwd": "/w", "readOnly": ["look"], "skills": true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []host.Server{
		{Label: "a", File: "f.json", Command: "npx", Args: []string{"-y", "thing"}, Env: map[string]string{"K": "${K:-v}"}, Cwd: "/w", ReadOnly: []string{"look"}, Skills: true},
		{Label: "b", File: "f.json", Type: "http", URL: "https://x.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseNamesFileAndKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                        "it is not JSON",
		`[]`:                      "it is not an object",
		`{}`:                      "it has no mcpServers",
		`{"mcpServers":{},"x":1}`: `unknown field "x"`,
		`{"mcpServers":{}} {}`:    "after the object",
		`{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}`:           "a is defined twice",
		`{"mcpServers":{"a":{"command":"x","command":"y"}}}`:                 "mcpServers.a",
		`{"mcpServers":{"a":{"command":"x","env":{"K":"1","K":"2"}}}}`:       "mcpServers.a.env",
		`{"mcpServers":{"a":{"comand":"x"}}}`:                                `unknown field "comand"`,
		`{"mcpServers":{"A":{"command":"x"}}}`:                               "mcpServers.A",
		`{"mcpServers":{"a__b":{"command":"x"}}}`:                            "a server name must not contain __",
		`{"mcpServers":{"":{"command":"x"}}}`:                                "a server name has",
		`{"mcpServers":{"a":{}}}`:                                            "neither command nor url",
		`{"mcpServers":{"a":{"command":"x","url":"http://y"}}}`:              "not both",
		`{"mcpServers":{"a":{"url":"http://y","args":["x"]}}}`:               "are for a command",
		`{"mcpServers":{"a":{"type":"sse","url":"http://y"}}}`:               "mcpServers.a.type",
		`{"mcpServers":{"a":{"command":7}}}`:                                 "command is not a string",
		`{"mcpServers":{"a":{"command":"x","args":"y"}}}`:                    "args is not a list of strings",
		`{"mcpServers":{"a":{"command":"x","args":[1]}}}`:                    "args is not a string",
		`{"mcpServers":{"a":{"command":"x","startTimeoutMs":-1}}}`:           "timeout",
		`{"mcpServers":{"` + strings.Repeat("a", 33) + `":{"command":"x"}}}`: "a server name has",
	} {
		_, err := host.Parse("f.json", []byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f.json") {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	env := func(k string) (string, bool) {
		v, ok := map[string]string{"A": "1", "EMPTY": "", "KEY": "k-123456789"}[k]
		return v, ok
	}
	off, on := "${NONE:-}", "${A}"
	s := host.Server{Label: "s", File: "f", Command: "${A}/x", Args: []string{"${NONE:-d}", "$A", "${EMPTY:-e}", "${EMPTY}"}, Env: map[string]string{"K": "${KEY}"}, When: &on}
	got, used, err := s.Expand(env)
	if err != nil || !used {
		t.Fatal(used, err)
	}
	if diff := cmp.Diff([]string{"1/x", "d", "$A", "e", "", "k-123456789"}, append(append([]string{got.Command}, got.Args...), got.Env["K"])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"s.env.K": "k-123456789"}, got.Secrets()); diff != "" {
		t.Error(diff)
	}
	s.When = &off
	if _, used, err := s.Expand(env); used || err != nil {
		t.Error(used, err)
	}
	s.When, s.Env = nil, map[string]string{"K": "secret ${MISSING}"}
	if _, _, err := s.Expand(env); err == nil || !strings.Contains(err.Error(), "mcpServers.s.env.K") || !strings.Contains(err.Error(), "MISSING") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if _, _, err := (host.Server{Label: "s", URL: "file:///x"}).Expand(env); err == nil {
		t.Error("a file URL is taken")
	}
}

// Many servers take their key as an argument or in their address.
func TestSecretsOfArgumentsAndAddressesAreKnown(t *testing.T) {
	t.Parallel()
	env := func(k string) (string, bool) {
		v, ok := map[string]string{"HOME": "/home/somebody", "DOCS_API_KEY": "k-from-the-environment", "DOCS_HOST": "docs.example.org"}[k]
		return v, ok
	}
	for name, c := range map[string]struct {
		server host.Server
		want   map[string]string
	}{
		"a variable": {host.Server{Args: []string{"${HOME}/x", "Bearer:${DOCS_API_KEY}"}}, map[string]string{"s.args.1.DOCS_API_KEY": "k-from-the-environment"}},
		"flags": {host.Server{Args: []string{"--api-key", "k-123456789", "--token=t-123456789", "--mode", "something", "--auth", "--mode"}},
			map[string]string{"s.args.0": "k-123456789", "s.args.2": "t-123456789"}},
		"a query": {host.Server{URL: "https://${DOCS_HOST}/mcp?api_key=k%20123456789&kind=everything"}, map[string]string{"s.url.api_key": "k%20123456789", "s.url.api_key.plain": "k 123456789"}},
		"a path":  {host.Server{URL: "https://u:p-123456789@x.example/servers/0a1b2c3d4e5f6a7b8c9d/mcp"}, map[string]string{"s.url": "p-123456789", "s.url.path.2": "0a1b2c3d4e5f6a7b8c9d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.server.Label = "s"; c.server.URL == "" {
				c.server.Command = "x"
			}
			got, _, err := c.server.Expand(env)
			if diff := cmp.Diff(c.want, got.Secrets()); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

// A label that ends with _ could collide with the tool of another server: a_
// with b, and a with _b.
func TestLabelsCannotMeet(t *testing.T) {
	t.Parallel()
	for label, good := range map[string]bool{"a": true, "a_b": true, "a-": true, "a_": false, "_a": false, "a__b": false, strings.Repeat("a", 32): true, strings.Repeat("a", 33): false} {
		if _, err := host.Parse("f", []byte(`{"mcpServers":{"`+label+`":{"command":"x"}}}`)); (err == nil) != good {
			t.Errorf("%s: %v", label, err)
		}
	}
}
