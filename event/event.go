// Package event defines the typed entries of a session's log. An event contains
// facts: IDs, digests, codes, sizes, counts, and references to blobs. Text of
// users, models, skills, tools, and scripts is stored in blobs, so that a log
// can be stored, exported, and verified after its content was erased.
//
// The log is the source of truth: the state of a session, the state of the
// agent's step machine, and every artifact are folds of these events. Types are
// dotted and versioned; Entry.V is the version of the data. If this build does
// not know the type of an event, resume fails if its entry sets Must. Otherwise
// the event is skipped with a diagnostic.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"metier/record"
)

// Event is one typed entry. Type returns its dotted name.
type Event interface{ Type() string }

// ErrUnknown is wrapped by Decode for a type this build does not know.
var ErrUnknown = errors.New("unknown event type")

// version is the version written for every type; a type that changes its data
// gets an entry in upcast and a higher number here.
const version = 1

// optional lists the types a build may pass over when it does not know them.
var optional = map[string]bool{"note": true}

// New returns the entry of an event. id is its idempotency key, and by the
// principal.
func New(e Event, id, by string, at time.Time) (record.Entry, error) {
	if known, ok := types[e.Type()]; !ok || known != reflect.TypeOf(e) {
		return record.Entry{}, fmt.Errorf("encode %s: %T is not an event of this build; events are values", e.Type(), e)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return record.Entry{}, fmt.Errorf("encode %s: %w", e.Type(), err)
	}
	return record.Entry{V: version, ID: id, At: at.UTC().Round(0), By: by, Type: e.Type(),
		Must: !optional[e.Type()], Data: data, Refs: Refs(e)}, nil
}

// Decode reads the event of an entry.
func Decode(en record.Entry) (Event, error) {
	t, ok := types[en.Type]
	if !ok {
		t, ok = types[renamed[en.Type]]
	}
	if !ok {
		return nil, fmt.Errorf("entry %d: %w %q", en.Seq, ErrUnknown, en.Type)
	}
	if en.V > version {
		return nil, fmt.Errorf("entry %d: %w: %s has version %d, this build reads %d", en.Seq, ErrUnknown, en.Type, en.V, version)
	}
	p := reflect.New(t)
	if err := json.Unmarshal(en.Data, p.Interface()); err != nil {
		return nil, fmt.Errorf("entry %d: %s: %w", en.Seq, en.Type, err)
	}
	return p.Elem().Interface().(Event), nil
}

// renamed maps names that records of older builds have to today's. The data of
// both reads the same.
var renamed = map[string]string{"skill.indexed": "skill.discovered"}

// types maps each name to its Go type.
var types = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, e := range All() {
		m[e.Type()] = reflect.TypeOf(e)
	}
	return m
}()

// All returns a zero value of every event this build knows, in the order of
// the documentation.
func All() []Event {
	return []Event{
		SessionOpened{}, SessionEnded{}, SkillsDiscovered{}, ResourcesIndexed{}, Input{}, PolicyDecided{}, ApprovalRequested{}, ApprovalAnswered{}, ApprovalExpired{},
		ToolCallStarted{}, ToolResult{}, ToolCallLost{}, Staged{}, SkillActivated{}, ResourceRead{}, FileRead{}, ScriptExecuted{}, CommandExecuted{}, PackagesRequested{}, PageFetched{},
		SkillDrifted{}, SkillSuspected{}, CatalogSent{},
		RunStarted{}, RunLimited{}, RunResumed{}, ToolsOffered{}, ModelStarted{}, ModelReplied{}, ModelFailed{}, ContextCompacted{},
		OutputChecked{}, ChildEnded{}, RunStopped{}, RunWaiting{}, RunEnded{}, RecordRecovered{}, Note{},
	}
}

var refType = reflect.TypeFor[record.Ref]()

// Refs returns every blob an event names, in field order.
func Refs(e Event) []record.Ref {
	var out []record.Ref
	collect(reflect.ValueOf(e), &out)
	return out
}

func collect(v reflect.Value, out *[]record.Ref) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == refType {
			if r := v.Interface().(record.Ref); r.Digest != "" {
				*out = append(*out, r)
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				collect(v.Field(i), out)
			}
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				collect(v.Index(i), out)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), out)
		}
	}
}
