// Package provider opens models by name, such as anthropic:claude-sonnet-5, and
// chooses one if none is named.
package provider

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/namedfile"
	"metier/model"
	"metier/model/anthropic"
	"metier/model/gemini"
	"metier/model/openai"
	"metier/model/scripted"
)

// Provider is a service that serves models.
type Provider struct {
	Name    string
	Keys    []string // environment variables with its key; the first one that is set wins
	Keyless bool     // it can be used without a key
	Model   string   // the model to choose if only a key is set, or ""

	baseEnv string // environment variable with another base URL
	base    string // default base URL, "" for the adapter's own
	open    func(name, base, key string) model.Model
}

// All lists the providers in the order in which [Choose] tries them.
func All() []Provider {
	compatible := func(as string) func(name, base, key string) model.Model {
		return func(name, base, key string) model.Model {
			return openai.New(name, &openai.Options{Provider: as, BaseURL: base, Key: key})
		}
	}
	return []Provider{
		{Name: "anthropic", Keys: []string{"ANTHROPIC_API_KEY"}, baseEnv: "ANTHROPIC_BASE_URL", Model: "claude-sonnet-5",
			open: func(name, base, key string) model.Model {
				return anthropic.New(name, &anthropic.Options{BaseURL: base, Key: key})
			}},
		{Name: "openai", Keys: []string{"OPENAI_API_KEY"}, baseEnv: "OPENAI_BASE_URL", Model: "gpt-5.4-mini", open: compatible("openai")},
		{Name: "gemini", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, baseEnv: "GEMINI_BASE_URL", Model: "gemini-2.5-flash",
			open: func(name, base, key string) model.Model {
				return gemini.New(name, &gemini.Options{BaseURL: base, Key: key})
			}},
		{Name: "openrouter", Keys: []string{"OPENROUTER_API_KEY"}, baseEnv: "OPENROUTER_BASE_URL", base: "https://openrouter.ai/api/v1",
			Model: "openrouter/auto", open: compatible("openrouter")},
		{Name: ollama, baseEnv: "OLLAMA_HOST", base: "http://127.0.0.1:11434", Keyless: true,
			open: func(name, base, key string) model.Model {
				return compatible(ollama)(name, strings.TrimSuffix(base, "/")+"/v1", cmp.Or(key, ollama))
			}},
		{Name: "vllm", Keys: []string{"VLLM_API_KEY"}, baseEnv: "VLLM_BASE_URL", base: "http://127.0.0.1:8000/v1", Keyless: true,
			open: func(name, base, key string) model.Model { return compatible("vllm")(name, base, cmp.Or(key, "none")) }},
	}
}

// Names lists the names of all providers.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Scripted is the name prefix of a scripted model. It is followed by a file of recorded turns.
const Scripted = "scripted:"

// ScriptOf returns the file of recorded turns in the name of a scripted model, or "" for other
// models.
func ScriptOf(id string) string {
	if file, is := strings.CutPrefix(id, Scripted); is {
		return file
	}
	return ""
}

// Options locate keys, base URLs, and files.
type Options struct {
	Env      func(string) string      // the environment
	Path     func(path string) string // makes the path of a script absolute
	BaseURLs map[string]string        // by provider; the environment wins
}

// Key returns the provider's key, or "".
func (o Options) Key(p Provider) string {
	for _, k := range p.Keys {
		if v := o.Env(k); v != "" {
			return v
		}
	}
	return ""
}

// Base returns the provider's base URL, or "" for the default of its adapter.
func (o Options) Base(p Provider) string {
	return p.whole(cmp.Or(o.Env(p.baseEnv), o.BaseURLs[p.Name], p.base))
}

// whole adds the scheme to a base URL without one.
func (p Provider) whole(base string) string {
	if p.Name == ollama && base != "" && !strings.Contains(base, "://") {
		return "http://" + base
	}
	return base
}

// checkBase fails if the provider's base URL is not an HTTP address. The error does not contain the
// URL, because it can have a password.
func (o Options) checkBase(p Provider) error {
	base, from := o.Base(p), p.baseEnv
	if u, err := url.Parse(base); base == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	if o.Env(from) == "" {
		from = "base_urls of " + p.Name + " in the configuration"
	}
	return metier.Errorf(metier.Invalid, "base_url_invalid", "set "+from+" to http://HOST or https://HOST, optionally with a path", "the base URL of the provider %s is not an HTTP address", p.Name)
}

// Passwords returns the passwords in the provider's base URLs, also in one that another overrides.
func (o Options) Passwords(p Provider) []string {
	var out []string
	for _, base := range []string{o.Env(p.baseEnv), o.BaseURLs[p.Name]} {
		if u, err := url.Parse(p.whole(base)); err == nil {
			if word, _ := u.User.Password(); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// shown returns a base URL without its password.
func shown(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "its address"
	}
	return u.Redacted()
}

// Model is an open model.
type Model struct {
	Model  model.Model
	ID     string // PROVIDER:NAME
	Note   string // what the user should know about the choice, or ""
	Script string // absolute path of the recorded turns, or ""
}

// maxScript is the maximum size of a file of recorded turns, in bytes.
const maxScript = 16 << 20

// Open opens the model PROVIDER:NAME.
func Open(id string, o Options) (Model, error) {
	prov, name, ok := strings.Cut(id, ":")
	if !ok || name == "" {
		return Model{}, metier.Errorf(metier.Invalid, "model_invalid", "for example anthropic:claude-sonnet-5", "model %q does not have the form provider:name", id)
	}
	if prov+":" == Scripted {
		return openScript(name, o)
	}
	i := slices.IndexFunc(All(), func(p Provider) bool { return p.Name == prov })
	if i < 0 {
		return Model{}, metier.Errorf(metier.Invalid, "provider_unknown", "providers: "+known(), "there is no provider %q", prov)
	}
	p := All()[i]
	key := o.Key(p)
	if key == "" && !p.Keyless {
		return Model{}, metier.Errorf(metier.Invalid, "no_key", "set "+p.Keys[0], "provider %s needs a key", p.Name)
	}
	if err := o.checkBase(p); err != nil {
		return Model{}, err
	}
	return Model{Model: p.open(name, o.Base(p), key), ID: id}, nil
}

func known() string { return strings.Join(Names(), ", ") + ", scripted" }

func openScript(file string, o Options) (Model, error) {
	path := o.Path(file)
	src, err := namedfile.Read(path, maxScript)
	if err != nil {
		return Model{}, metier.Errorf(metier.Invalid, "script_unreadable", "specify the path to a file of recorded turns", "scripted model: %w", err)
	}
	m, err := scripted.New(src)
	if err != nil {
		return Model{}, metier.Errorf(metier.Invalid, "script_invalid", "a script is YAML such as: turns: [{calls: [{tool: read_file, args: {path: a.txt}}]}, {say: Done.}]", "%s: %w", path, err)
	}
	return Model{Model: m, ID: Scripted + filepath.Base(path), Script: path,
		Note: "the model is scripted: it replays the recorded turns of " + filepath.Base(path)}, nil
}

// Choose opens the model with the first non-empty ID in asked. If all are empty, it uses the first
// provider with a key, else a local Ollama, else it replays script.
func Choose(ctx context.Context, script string, o Options, asked ...string) (Model, error) {
	if id := cmp.Or(asked...); id != "" {
		return Open(id, o)
	}
	for _, p := range All() {
		if p.Model != "" && o.Key(p) != "" {
			return Open(p.Name+":"+p.Model, o)
		}
		if p.Name == ollama {
			if name := LocalOllama(ctx, o.Base(p)); name != "" {
				m, err := Open(ollama+":"+name, o)
				m.Note = "no provider has a key, so the model is " + m.ID + " of the Ollama server at " + shown(o.Base(p))
				return m, err
			}
		}
	}
	if script == "" {
		return Model{}, metier.Fieldf(metier.Invalid, "Request.Model", "no_model", "set a key such as ANTHROPIC_API_KEY, start Ollama, or specify a model as provider:name with Request.Model (providers: "+known()+")",
			"no model is available: no provider has an API key, and Ollama is not running on this machine")
	}
	m, err := openScript(script, o)
	if e, ok := errors.AsType[*metier.Error](err); ok {
		e.Field = "Request.Model" // the script is used in its place
	}
	m.Note = "no model key and no local Ollama found: replaying the recorded turns of " + filepath.Base(script)
	return m, err
}
