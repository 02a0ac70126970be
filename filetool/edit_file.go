package filetool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"sync"

	"metier"
	"metier/internal/argschema"
	"metier/policy"
	"metier/settings"
)

//go:embed edit_file.md
var editText string

type editFile struct{ files }

type editArgs struct {
	Path    string  `json:"path"`
	Old     string  `json:"old"`
	New     *string `json:"new"`
	All     bool    `json:"all,omitempty"`
	IfMatch string  `json:"ifMatch,omitempty"`
}

var editSchema = sync.OnceValue(func() json.RawMessage {
	return argschema.Object(map[string]any{
		"path":    argschema.Text("Path of the file."),
		"old":     argschema.Text("The text to replace, exactly as in the file."),
		"new":     argschema.Text("Replacement text; may be empty."),
		"all":     map[string]any{"type": "boolean", "description": "Replace every occurrence."},
		"ifMatch": argschema.Text("Expected current digest of the file, as sha256:…; if it differs, nothing is written."),
	}, "path", "old", "new")
})

func (t editFile) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return t.spec(settings.ToolEditFile, editText, policy.Write, editSchema()), true
}

func (t editFile) args(raw json.RawMessage) (editArgs, error) {
	var a editArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	switch {
	case a.Path == "":
		return a, missing("path")
	case a.Old == "":
		return a, metier.InvalidArguments("old is missing or empty; use write_file for a new file")
	case a.New == nil:
		return a, missing("new")
	case a.Old == *a.New:
		return a, metier.InvalidArguments("old and new are the same")
	}
	return a, nil
}

func (a editArgs) change(old []byte) ([]byte, string, int) {
	if !isText(old) {
		return nil, "not_text", 0
	}
	n := bytes.Count(old, []byte(a.Old))
	switch {
	case n == 0:
		return nil, "no_match", 0
	case n > 1 && !a.All:
		return nil, "ambiguous_match", n
	case len(old)+n*(len(*a.New)-len(a.Old)) > writeMax:
		return nil, "file_too_large", n
	}
	return bytes.ReplaceAll(old, []byte(a.Old), []byte(*a.New)), "", n
}

func (t editFile) Facts(_ context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	return t.plan(s, a.Path, a.IfMatch, a.change, false)
}

func (t editFile) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return failed(ctx, err)
	}
	return t.carryOut(ctx, x, settings.ToolEditFile, a.Path, a.change)
}
