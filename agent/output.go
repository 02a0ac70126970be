package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"metier/agent/step"
	"metier/event"
	"metier/model"
	"metier/record"
)

// check compares the final answer with the run's schema. An answer that does
// not fit goes back to the model with what is wrong.
func (d *driver) check(ctx context.Context, a step.Check) error {
	e := event.OutputChecked{ID: a.ID}
	value, err := d.structured(ctx, a.Answer, a.Schema)
	if err != nil {
		e.Code = step.CodeOutputInvalid
		text := "Your answer does not have the form that was asked for: " + err.Error() + "\nAnswer again with one JSON value of that form and nothing else."
		if e.Errors, err = d.putJSON(ctx, model.UserText(text)); err != nil {
			return err
		}
		return d.append(ctx, e)
	}
	if e.Output, err = d.Blobs.Put(ctx, "application/json", value); err != nil {
		return fault(err)
	}
	return d.append(ctx, e)
}

// structured reads the JSON of an answer and validates it.
func (d *driver) structured(ctx context.Context, answer, schema record.Ref) (json.RawMessage, error) {
	var sch json.RawMessage
	if err := d.loadJSON(ctx, schema, &sch); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	resolved, err := openSchema(sch)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	raw := jsonOf(d.answer(ctx, answer))
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		return nil, errors.New("it is not one JSON value")
	}
	if err := resolved.Validate(v); err != nil {
		return nil, err
	}
	return json.RawMessage(raw), nil
}

// jsonOf takes the code fence off that many models put around JSON.
func jsonOf(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		rest = strings.TrimPrefix(rest, "json")
		if body, _, ok := strings.Cut(rest, "```"); ok {
			return strings.TrimSpace(body)
		}
	}
	return s
}
