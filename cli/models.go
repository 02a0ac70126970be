package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"metier/config"
	"metier/internal/namedfile"
	"metier/model"
	"metier/model/anthropic"
	"metier/model/gemini"
	"metier/model/openai"
	"metier/model/scripted"
)

// provider is one way to reach a model.
type provider struct {
	name    string
	keys    []string // environment variables, first set wins
	baseEnv string   // environment variable with another base URL
	base    string   // default base URL, "" for the adapter's own
	keyless bool
	model   string // what is asked when only the key is there
	open    func(name string, o modelOptions) (model.Model, error)
}

type modelOptions struct{ base, key string }

// providers lists them in the order they are looked for.
func providers() []provider {
	compatible := func(as string) func(string, modelOptions) (model.Model, error) { // as: who made a reply's opaque parts, and failed
		return func(name string, o modelOptions) (model.Model, error) {
			return openai.New(name, &openai.Options{Provider: as, BaseURL: o.base, Key: o.key}), nil
		}
	}
	return []provider{
		{name: "anthropic", keys: []string{"ANTHROPIC_API_KEY"}, baseEnv: "ANTHROPIC_BASE_URL", model: "claude-sonnet-5",
			open: func(name string, o modelOptions) (model.Model, error) {
				return anthropic.New(name, &anthropic.Options{BaseURL: o.base, Key: o.key}), nil
			}},
		{name: "openai", keys: []string{"OPENAI_API_KEY"}, baseEnv: "OPENAI_BASE_URL", model: "gpt-5.4-mini", open: compatible("openai")},
		{name: "gemini", keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, baseEnv: "GEMINI_BASE_URL", model: "gemini-2.5-flash",
			open: func(name string, o modelOptions) (model.Model, error) {
				return gemini.New(name, &gemini.Options{BaseURL: o.base, Key: o.key}), nil
			}},
		{name: "openrouter", keys: []string{"OPENROUTER_API_KEY"}, baseEnv: "OPENROUTER_BASE_URL", base: "https://openrouter.ai/api/v1",
			model: "openrouter/auto", open: compatible("openrouter")},
		{name: "ollama", baseEnv: "OLLAMA_HOST", base: "http://127.0.0.1:11434", keyless: true, open: func(name string, o modelOptions) (model.Model, error) {
			o.base = strings.TrimSuffix(o.base, "/") + "/v1"
			o.key = cmp.Or(o.key, "ollama")
			return compatible("ollama")(name, o)
		}},
		{name: "vllm", keys: []string{"VLLM_API_KEY"}, baseEnv: "VLLM_BASE_URL", base: "http://127.0.0.1:8000/v1", keyless: true, open: func(name string, o modelOptions) (model.Model, error) {
			o.key = cmp.Or(o.key, "none")
			return compatible("vllm")(name, o)
		}},
	}
}

// chosen is a model that was picked.
type chosen struct {
	model  model.Model
	id     string // provider:name
	note   string // what to tell the user about the choice, or ""
	script string // absolute path of the scripted turns, or ""
	key    string // the secret, to keep it out of the record
}

// chooseModel picks the model: what was asked for, else METIER_MODEL, else the
// configuration, else the first provider a key or a local Ollama is there for,
// else the script, which says that it is one.
func (a *app) chooseModel(ctx context.Context, op config.Operator, asked, script string) (chosen, error) {
	if want := cmp.Or(asked, a.env.Get("METIER_MODEL"), op.Model); want != "" {
		return a.openModel(op, want)
	}
	for _, p := range providers() {
		if key := a.key(p); key != "" {
			return a.openModel(op, p.name+":"+p.model)
		}
		if p.name == "ollama" {
			if name := localOllama(ctx, a.base(op, p)); name != "" {
				return a.openModel(op, "ollama:"+name)
			}
		}
	}
	if script == "" {
		return chosen{}, wrong("no_model", "set a key such as ANTHROPIC_API_KEY, start Ollama, or give --model provider:name (providers: "+providerNames()+", scripted)",
			"there is no model to ask")
	}
	c, err := a.openModel(op, "scripted:"+script)
	c.note = "no model key and no local Ollama found: replaying the recorded turns of " + filepath.Base(script)
	return c, err
}

// unasked is the model of a dry run on a host that has none.
type unasked struct{}

func (unasked) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, errors.New("a dry run asks no model")) }
}

func providerNames() string {
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func (a *app) key(p provider) string {
	for _, k := range p.keys {
		if v := a.env.Get(k); v != "" {
			return v
		}
	}
	return ""
}

func (a *app) base(op config.Operator, p provider) string {
	base := cmp.Or(a.env.Get(p.baseEnv), op.BaseURLs[p.name], p.base)
	if p.name == "ollama" && base != "" && !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return base
}

// openModel opens provider:name.
func (a *app) openModel(op config.Operator, id string) (chosen, error) {
	prov, name, ok := strings.Cut(id, ":")
	if !ok || name == "" {
		return chosen{}, wrong("model_invalid", "write it as provider:name, for example anthropic:claude-sonnet-5", "model %q has no provider or no name", id)
	}
	if prov == "scripted" {
		path := a.env.Path(name)
		src, err := namedfile.Read(path, maxScript)
		if err != nil {
			return chosen{}, wrong("script_unreadable", "give the path of a file of recorded turns", "scripted model: %w", err)
		}
		m, err := scripted.New(src, nil)
		if err != nil {
			return chosen{}, wrong("script_invalid", "a script is YAML such as: turns: [{calls: [{tool: read_file, args: {path: a.txt}}]}, {say: Done.}]", "%s: %w", path, err)
		}
		return chosen{model: m, id: "scripted:" + filepath.Base(path), script: path,
			note: "the model is scripted: it replays the recorded turns of " + filepath.Base(path)}, nil
	}
	for _, p := range providers() {
		if p.name != prov {
			continue
		}
		key := a.key(p)
		if key == "" && !p.keyless {
			return chosen{}, wrong("no_key", "set "+p.keys[0], "provider %s needs a key", p.name)
		}
		m, err := p.open(name, modelOptions{base: a.base(op, p), key: key})
		return chosen{model: m, id: id, key: key}, err
	}
	return chosen{}, wrong("provider_unknown", "providers: "+providerNames()+", scripted", "there is no provider %q", prov)
}

// localOllama asks a local Ollama for its first model; "" when none answers.
func localOllama(ctx context.Context, base string) string {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/api/tags", nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&tags) != nil || len(tags.Models) == 0 {
		return ""
	}
	return tags.Models[0].Name
}

// describeCost words a run's cost, or says that no price is known.
func describeCost(micro *int64) string {
	if micro == nil {
		return ""
	}
	return fmt.Sprintf(", $%.4f", float64(*micro)/1e6)
}
