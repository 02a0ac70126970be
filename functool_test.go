package metier_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

type weatherIn struct {
	City string `json:"city" jsonschema:"the city"`
	Days int    `json:"days,omitempty" jsonschema:"how many days"`
}

func callTool(t *testing.T, tool metier.Tool, args string) metier.Observation {
	t.Helper()
	mem := record.NewMemory()
	s, err := metier.Open(t.Context(), metier.Config{ID: "s", By: "ada", Log: mem, Blobs: mem, Tools: []metier.Tool{tool}, Grants: policy.Grants{Tools: []string{"weather"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Call(t.Context(), metier.Call{Tool: "weather", Args: []byte(args)})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFuncTool_SpecHoldsSchema(t *testing.T) {
	t.Parallel()
	tool, err := metier.FuncTool("weather", "Forecast the weather.", policy.Read, func(context.Context, weatherIn) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	spec, offered := tool.Spec(t.Context(), nil)
	if !offered {
		t.Error("the tool is not offered")
	}
	want := `{"type":"object","properties":{"city":{"type":"string","description":"the city"},"days":{"type":"integer","description":"how many days"}},"required":["city"],"additionalProperties":false}`
	if diff := cmp.Diff(want, string(spec.Schema)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestFuncTool_Call(t *testing.T) {
	t.Parallel()
	type out struct {
		Sky string `json:"sky"`
	}
	text, err := metier.FuncTool("weather", "Forecast.", policy.SideEffect, func(_ context.Context, in weatherIn) (string, error) {
		if in.City == "Atlantis" {
			return "", errors.New("there is no such city")
		}
		if in.City == "Oslo" {
			return "", &metier.Error{Kind: metier.Denied, Code: "city_closed", Err: errors.New("closed")}
		}
		return "rain in " + in.City, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	object, err := metier.FuncTool("weather", "Forecast.", policy.Read, func(_ context.Context, in weatherIn) (out, error) { return out{"blue"}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		tool       metier.Tool
		args       string
		code, text string
	}{
		"text":          {text, `{"city":"Rome"}`, "", "rain in Rome"},
		"JSON":          {object, `{"city":"Rome"}`, "", `{"sky":"blue"}`},
		"failure":       {text, `{"city":"Atlantis"}`, "tool_failed", "tool_failed: weather: there is no such city"},
		"own code":      {text, `{"city":"Oslo"}`, "city_closed", "city_closed: closed"},
		"missing":       {text, `{"days":1}`, "invalid_arguments", ""},
		"unknown field": {text, `{"city":"Rome","x":1}`, "invalid_arguments", ""},
		"wrong type":    {text, `{"city":1}`, "invalid_arguments", ""},
		"no object":     {text, `[]`, "invalid_arguments", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := callTool(t, tt.tool, tt.args)
			if diff := cmp.Diff(tt.code, o.Code()); diff != "" {
				t.Errorf("code (-want +got):\n%s%s", diff, o.Text())
			}
			if tt.text != "" {
				if diff := cmp.Diff(tt.text, o.Text()); diff != "" {
					t.Errorf("text (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A function's error may contain what it read. If results are withheld, so is the error.
func TestFuncTool_ErrorIsReleasedAsResult(t *testing.T) {
	t.Parallel()
	tool, err := metier.FuncTool("weather", "Forecast.", policy.Read, func(_ context.Context, in weatherIn) (string, error) {
		if in.City == "Oslo" {
			return "", &metier.Error{Op: "weather", Kind: metier.NotFound, Code: "no_station", Err: errors.New("no station")}
		}
		return "", errors.New("the body says: obey")
	})
	if err != nil {
		t.Fatal(err)
	}
	for city, want := range map[string]string{"Oslo": "no_station", "Rome": policy.CodeUnmediated} {
		mem := record.NewMemory()
		s, err := metier.Open(t.Context(), metier.Config{ID: "s", By: "ada", Log: mem, Blobs: mem, Tools: []metier.Tool{tool}, Grants: policy.Grants{Mode: policy.EnforceExplicit, Tools: []string{"weather"}}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Call(t.Context(), metier.Call{Tool: "weather", Args: []byte(`{"city":"` + city + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if o.Code() != want {
			t.Errorf("%s: code %q, want %q: %v", city, o.Code(), want, o.Parts())
		}
	}
}

func TestFuncTool_RefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, weatherIn) (string, error) { return "", nil }
	for name, make := range map[string]func() (metier.Tool, error){
		"name":        func() (metier.Tool, error) { return metier.FuncTool("", "d", policy.Read, fn) },
		"words":       func() (metier.Tool, error) { return metier.FuncTool("the weather", "d", policy.Read, fn) },
		"description": func() (metier.Tool, error) { return metier.FuncTool("n", "", policy.Read, fn) },
		"effect":      func() (metier.Tool, error) { return metier.FuncTool("n", "d", "", fn) },
		"write":       func() (metier.Tool, error) { return metier.FuncTool("n", "d", policy.Write, fn) },
		"function":    func() (metier.Tool, error) { return metier.FuncTool[weatherIn, string]("n", "d", policy.Read, nil) },
		"result": func() (metier.Tool, error) {
			return metier.FuncTool("n", "d", policy.Read, func(context.Context, weatherIn) (chan string, error) { return nil, nil })
		},
		"struct": func() (metier.Tool, error) {
			return metier.FuncTool("n", "d", policy.Read, func(context.Context, string) (string, error) { return "", nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool, err := make()
			if tool != nil || metier.CodeOf(err) != "tool_invalid" {
				t.Errorf("%v, %v", tool, err)
			}
		})
	}
}

// plainWrite is a tool that writes without reporting the state before and after.
type plainWrite struct{}

func (plainWrite) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: "weather"}, Canonical: "weather", Effect: policy.Write}, true
}

func (plainWrite) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{}, nil
}

func (plainWrite) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	return metier.Text("written"), nil
}

// An interrupted call is repeated only if its claim says how to check whether it happened.
// Otherwise, a write is claimed as a side effect.
func TestCall_WriteWithoutIntentIsClaimedAsSideEffect(t *testing.T) {
	t.Parallel()
	mem := record.NewMemory()
	s, err := metier.Open(t.Context(), metier.Config{ID: "s", By: "ada", Log: mem, Blobs: mem, Tools: []metier.Tool{plainWrite{}}, Grants: policy.Grants{Tools: []string{"weather"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Call(t.Context(), metier.Call{Tool: "weather", Args: []byte(`{}`)})
	if err != nil || o.Code() != "" {
		t.Fatalf("%v: %s", err, o.Text())
	}
	for en, err := range mem.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e, err := event.Decode(en); err == nil {
			if started, is := e.(event.ToolCallStarted); is {
				if diff := cmp.Diff(policy.SideEffect, started.Effect); diff != "" {
					t.Errorf("effect of the claim (-want +got):\n%s", diff)
				}
				return
			}
		}
	}
	t.Error("no claim was recorded")
}

// The caller of a tool gets what the record contains, without secrets.
func TestCall_ReturnsNoSecrets(t *testing.T) {
	t.Parallel()
	mem := record.NewMemory()
	tool, err := metier.FuncTool("weather", "Forecast.", policy.Read, func(context.Context, weatherIn) (weatherIn, error) {
		return weatherIn{City: "supersecretvalue123"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := metier.Open(t.Context(), metier.Config{ID: "s", By: "ada", Log: mem, Blobs: record.Redact(mem, record.Secret{Name: "KEY", Value: "supersecretvalue123"}),
		Tools: []metier.Tool{tool}, Grants: policy.Grants{Tools: []string{"weather"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Call(t.Context(), metier.Call{ID: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`), Actor: policy.ByModel})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"city":"[redacted:KEY]"}`, o.Text()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(o.Detail()), "supersecret") {
		t.Errorf("the detail is %s", o.Detail())
	}
}
