package host

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/internal/digest"
	"metier/internal/termtext"
	"metier/record"
)

// Server is one server as the operator configured it, in the shape of
// mcpServers: a program, or a URL.
type Server struct {
	Label   string            `json:"-" yaml:"-"`
	File    string            `json:"-" yaml:"-"`                 // that configures it; relative paths are relative to its folder
	Type    string            `json:"type,omitempty" yaml:"type"` // stdio or http; "": by the other keys
	Command string            `json:"command,omitempty" yaml:"command"`
	Args    []string          `json:"args,omitempty" yaml:"args"`
	Env     map[string]string `json:"env,omitempty" yaml:"env"`
	Cwd     string            `json:"cwd,omitempty" yaml:"cwd"`
	URL     string            `json:"url,omitempty" yaml:"url"`
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
	// ReadOnly names tools that the operator declares read-only. "*" means all. All others count as
	// side effects, whatever the server declares.
	ReadOnly []string `json:"readOnly,omitempty" yaml:"readOnly"`
	Skills   bool     `json:"skills,omitempty" yaml:"skills"` // its skills become a source
	// SkillURIs are additional skills that may be missing from the server's list, by the address of
	// their SKILL.md.
	SkillURIs []string `json:"skillUris,omitempty" yaml:"skillUris"`
	// When disables the server if it expands to empty, 0, off, no or false. If nil, the server is
	// used.
	When    *string `json:"when,omitempty" yaml:"when"`
	StartMS int     `json:"startTimeoutMs,omitempty" yaml:"startTimeoutMs"` // 0: 10 seconds
	CallMS  int     `json:"callTimeoutMs,omitempty" yaml:"callTimeoutMs"`   // 0: 60 seconds
	// Drawn holds the values that Expand inserted into args and url from variables with secret-like
	// names, by place.
	Drawn map[string]string `json:"-" yaml:"-"`
	// Configured is the configuration before Expand.
	Configured json.RawMessage `json:"-" yaml:"-"`
}

// Limits of a configuration.
const (
	maxConfig  = 1 << 20
	maxServers = 64
)

var label = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9-])?$`)

// wrong returns a configuration error. It names the file and the key, never a value.
func wrong(file, key, format string, args ...any) error {
	if key != "" {
		key = "mcpServers." + key
	}
	return &metier.Error{Op: "mcp servers", Path: strings.TrimSpace(file + " " + key), Kind: metier.Invalid, Code: "mcp_config",
		Hint: `write {"mcpServers": {"NAME": {"command": "…", "args": […]} or {"type": "http", "url": "…"}}}`, Err: fmt.Errorf(format, args...)}
}

// Parse parses a file of the form {"mcpServers": {…}} strictly. Unknown keys, duplicate keys, and
// labels with characters other than a-z, 0-9, - and _ are errors that name the file and the key.
// Nothing is expanded yet.
func Parse(file string, data []byte) ([]Server, error) {
	if len(data) > maxConfig {
		return nil, wrong(file, "", "the file has more than %d bytes", maxConfig)
	}
	var doc struct {
		Servers json.RawMessage `json:"mcpServers"`
	}
	if err := strict(data, &doc); err != nil {
		return nil, wrong(file, "", "%w", err)
	}
	if doc.Servers == nil {
		return nil, wrong(file, "", "it has no mcpServers")
	}
	entries, err := members(doc.Servers)
	if err != nil {
		return nil, wrong(file, "", "mcpServers: %w", err)
	}
	var out []Server
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var s Server
		if err := strict(entries[name], &s); err != nil {
			return nil, wrong(file, quoted(name), "%w", err)
		}
		for _, part := range []string{"env", "headers"} {
			if err := flat(entries[name], part); err != nil {
				return nil, wrong(file, quoted(name)+"."+part, "%w", err)
			}
		}
		s.Label, s.File = name, file
		if err := s.check(); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) > maxServers {
		return nil, wrong(file, "", "it has more than %d servers", maxServers)
	}
	return out, nil
}

// quoted formats a key for display.
func quoted(name string) string { return termtext.Line(clipped(name, 64)) }

// strict decodes one JSON object whose members must be unique and known.
func strict(data []byte, into any) error {
	if _, err := members(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if bad, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("%s is not %s", bad.Field, kinds[bad.Type.Kind()])
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// kinds describe the types of a server's values in messages.
var kinds = map[reflect.Kind]string{reflect.String: "a string", reflect.Slice: "a list of strings", reflect.Map: "an object of strings", reflect.Struct: "an object",
	reflect.Bool: "true or false", reflect.Int: "an integer"}

// flat checks that the keys of a member that is an object are unique.
func flat(data []byte, name string) error {
	all, err := members(data)
	if err != nil || all[name] == nil {
		return err
	}
	_, err = members(all[name])
	return err
}

// members reads an object and rejects duplicate keys.
func members(data []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	if t != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		key, is := t.(string)
		if err != nil || !is {
			return nil, fmt.Errorf("it is not JSON after byte %d", d.InputOffset())
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s is defined twice", quoted(key))
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s is not JSON", quoted(key))
		}
		out[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("it is not JSON: the object is not closed")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the object")
	}
	return out, nil
}

// check returns what is wrong with a server.
func (s Server) check() error {
	bad := func(key, format string, args ...any) error {
		return wrong(s.File, strings.TrimSuffix(quoted(s.Label)+"."+key, "."), format, args...)
	}
	switch {
	case !label.MatchString(s.Label):
		return bad("", "a server name has 1 to 32 characters (a-z, 0-9, - and _), begins with a letter or digit, and does not end with _")
	case strings.Contains(s.Label, "__"):
		return bad("", "a server name must not contain __, which separates it from the names of its tools")
	case s.Type != "" && s.Type != "stdio" && s.Type != "http":
		return bad("type", "the types are stdio and http")
	case s.Command == "" && s.URL == "":
		return bad("", "it has neither command nor url")
	case s.Command != "" && (s.URL != "" || len(s.Headers) > 0 || s.Type == "http"):
		return bad("", "a server is a command or a url, not both")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Cwd != "" || s.Type == "stdio"):
		return bad("", "args, env and cwd are for a command")
	case s.StartMS < 0 || s.CallMS < 0:
		return bad("", "a timeout cannot be negative")
	}
	return nil
}

// variable matches ${NAME} and ${NAME:-default}.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// Expand replaces variables in a server's texts. used is false if its when disables it. An
// undefined variable without a default is an error that names it.
func (s Server) Expand(env func(string) (string, bool)) (out Server, used bool, err error) {
	out = s
	if out.Configured, err = json.Marshal(s); err != nil {
		return out, false, err
	}
	out.Drawn = map[string]string{}
	one := func(key, text string) string {
		return variable.ReplaceAllStringFunc(text, func(m string) string {
			p := variable.FindStringSubmatch(m)
			if v, ok := env(p[1]); ok && (v != "" || p[2] == "") {
				if secretive.MatchString(p[1]) && (key == "url" || strings.HasPrefix(key, "args")) {
					out.Drawn[strings.NewReplacer("[", ".", "]", "").Replace(key)+"."+p[1]] = v
				}
				return v
			}
			if p[2] == "" && err == nil {
				e := wrong(s.File, quoted(s.Label)+"."+key, "the variable %s is not set", p[1])
				e.(*metier.Error).Hint = "set it, or add a default: ${" + p[1] + ":-TEXT}"
				err = e
			}
			return p[3]
		})
	}
	if s.When != nil {
		w := strings.ToLower(strings.TrimSpace(one("when", *s.When)))
		if err != nil {
			return out, false, err
		}
		if slices.Contains([]string{"", "0", "off", "no", "false"}, w) {
			return out, false, nil
		}
	}
	out.Command, out.Cwd, out.URL = one("command", s.Command), one("cwd", s.Cwd), one("url", s.URL)
	out.Args, out.Env, out.Headers = slices.Clone(s.Args), maps.Clone(s.Env), maps.Clone(s.Headers)
	for i, v := range out.Args {
		out.Args[i] = one(fmt.Sprintf("args[%d]", i), v)
	}
	for _, k := range slices.Sorted(maps.Keys(out.Env)) {
		out.Env[k] = one("env."+quoted(k), out.Env[k])
	}
	for _, k := range slices.Sorted(maps.Keys(out.Headers)) {
		out.Headers[k] = one("headers."+quoted(k), out.Headers[k])
	}
	if err != nil {
		return out, false, err
	}
	if out.URL != "" {
		if u, bad := url.Parse(out.URL); bad != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return out, false, wrong(s.File, quoted(s.Label)+".url", "it is not an http or https URL")
		}
	}
	return out, true, nil
}

// Definition returns a digest of an expanded server's configuration, without the values of
// variables. It is slow to compute, so that a secret in the configuration cannot be guessed from it.
func (s Server) Definition() (string, error) {
	b, err := pbkdf2.Key(sha256.New, string(s.Configured), []byte("metier mcp server "+s.Label), 20_000, sha256.Size)
	return digest.Bytes(b), err
}

// shortest is the minimum length of a value to redact. A shorter one would match everywhere.
const shortest = 8

// secretive matches names of variables, flags and keys that hold secrets.
var secretive = regexp.MustCompile(`(?i)key|token|secret|passw|auth|credential|bearer|signature|_pat$`)

// Secrets returns the values that must not appear in records, errors or logs, by place: the values
// of env and headers, including an authorization without its scheme, the values in args and url of
// a variable, flag or key with a secret-like name, and the parts of a URL's path that look random.
func (s Server) Secrets() map[string]string {
	out := map[string]string{}
	for part, values := range map[string]map[string]string{"env": s.Env, "headers": s.Headers} {
		for k, v := range values {
			name := s.Label + "." + part + "." + k
			if len(v) >= shortest {
				out[name] = v
			}
			if _, token, ok := strings.Cut(v, " "); ok && part == "headers" && len(token) >= shortest {
				out[name+".token"] = token
			}
		}
	}
	add := func(place, v string) {
		if len(v) >= shortest {
			out[s.Label+"."+place] = v
		}
	}
	for place, v := range s.Drawn {
		add(place, v)
	}
	for i, a := range s.Args {
		flag, v, joined := strings.Cut(a, "=")
		if !joined && i+1 < len(s.Args) {
			v = s.Args[i+1]
		}
		if strings.HasPrefix(flag, "-") && secretive.MatchString(flag) && !strings.HasPrefix(v, "-") {
			add(fmt.Sprintf("args.%d", i), v)
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		if p, ok := u.User.Password(); ok {
			add("url", p)
		}
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			if k, v, _ := strings.Cut(pair, "="); secretive.MatchString(k) {
				add("url."+k, v)
				if plain, err := url.QueryUnescape(v); err == nil && plain != v {
					add("url."+k+".plain", plain)
				}
			}
		}
		for i, part := range strings.Split(u.EscapedPath(), "/") {
			if len(part) >= 2*shortest && strings.ContainsAny(part, "0123456789") {
				add(fmt.Sprintf("url.path.%d", i), part)
			}
		}
	}
	return out
}

// redactor returns a redactor of the server's secrets.
func (s Server) redactor() *record.Redactor {
	secrets := s.Secrets()
	var list []record.Secret
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		list = append(list, record.Secret{Name: name, Value: secrets[name]})
	}
	return record.Redact(nil, list...)
}

func (s Server) start() time.Duration { return limit(s.StartMS, 10*time.Second) }
func (s Server) call() time.Duration  { return limit(s.CallMS, time.Minute) }

func limit(ms int, otherwise time.Duration) time.Duration {
	if ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return otherwise
}
