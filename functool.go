package metier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"

	"metier/internal/schemaof"
	"metier/model"
	"metier/policy"
)

// FuncTool makes a tool of a function. In is a struct whose exported fields are the
// arguments: json tags name them, jsonschema tags describe them, and fields without
// omitempty are required. The model sees Out as text if it is a string, and as JSON
// otherwise. An error of fn is a failed call: the model sees its text, and the code of
// an [*Error]. effect is the worst that fn can do: policy.Read if it changes nothing,
// or policy.SideEffect. A call with side effects is recorded before fn runs, and it is
// not repeated if the process is killed meanwhile: the model is told that the outcome is
// unknown.
//
// FuncTool fails if the name, the description, or the function is missing, if providers
// do not take the name, if In has no JSON Schema, or if Out has no JSON.
func FuncTool[In, Out any](name, description string, effect policy.Effect, fn func(context.Context, In) (Out, error)) (Tool, error) {
	invalid := func(format string, args ...any) (Tool, error) {
		return nil, Errorf(Invalid, "tool_invalid", "", "tool %q: %w", name, fmt.Errorf(format, args...))
	}
	switch {
	case name == "":
		return invalid("the name is missing")
	case !toolName.MatchString(name):
		return invalid("the name must have 1 to 64 characters (A-Z, a-z, 0-9, _, and -), as providers require")
	case description == "":
		return invalid("the description is missing; the model uses it to choose a tool")
	case fn == nil:
		return invalid("the function is missing")
	case effect != policy.Read && effect != policy.SideEffect:
		return invalid("the effect is %q; it is policy.Read or policy.SideEffect", effect)
	}
	switch out := reflect.TypeFor[Out](); out.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return invalid("a result of type %s has no JSON", out)
	}
	schema, err := schemaof.Struct[In]()
	if err != nil {
		return invalid("%w", err)
	}
	return &funcTool[In, Out]{spec: Spec{ToolSpec: model.ToolSpec{Name: name, Description: description, Schema: schema.JSON}, Canonical: name, Effect: effect}, schema: schema, fn: fn}, nil
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

type funcTool[In, Out any] struct {
	spec   Spec
	schema *schemaof.Schema
	fn     func(context.Context, In) (Out, error)
}

func (t *funcTool[In, Out]) decode(args json.RawMessage) (in In, err error) {
	if err = DecodeArgs(args, &in); err != nil {
		return in, err
	}
	if err := t.schema.Check(args); err != nil {
		return in, InvalidArguments("%w", err)
	}
	return in, nil
}

func (t *funcTool[In, Out]) Spec(context.Context, *Session) (Spec, bool) { return t.spec, true }

func (t *funcTool[In, Out]) Facts(_ context.Context, _ *Session, args json.RawMessage) (Facts, error) {
	if _, err := t.decode(args); err != nil {
		return Facts{}, err
	}
	return Facts{Request: policy.Request{Effect: t.spec.Effect}}, nil
}

func (t *funcTool[In, Out]) Invoke(ctx context.Context, x *ToolContext) (Result, error) {
	in, err := t.decode(x.call.Args)
	if err != nil {
		return Failure(err), nil
	}
	out, err := t.fn(ctx, in)
	if err != nil {
		if _, made := errors.AsType[*Error](err); made {
			return Failure(err), nil
		}
		r := Text("tool_failed: " + t.spec.Name + ": " + err.Error()) // it may hold what the tool saw, as a result does
		r.Code = "tool_failed"
		return r, nil
	}
	if s, is := any(out).(string); is {
		return Text(s), nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return Failure(&Error{Op: t.spec.Name, Kind: Internal, Code: "tool_failed", Err: err}), nil
	}
	return Text(string(b)), nil
}
