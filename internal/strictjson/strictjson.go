// Package strictjson decodes JSON objects into flat structs and rejects everything their schema
// does not name. It also rejects ambiguities that encoding/json accepts.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"metier/internal/termtext"
)

// mostValue is the maximum length of a value in an error, in bytes.
const mostValue = 100

// Decode decodes one object into the flat struct that into points to. It fails for a key that is
// unknown, duplicate, in a different case, null, or of the wrong type, and names that key. The keys
// in without are unknown too, although the struct has them. Text after the object is an error, too.
func Decode(raw json.RawMessage, into any, without ...string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := checkKeys(raw, into, without)
	if err == nil {
		err = d.Decode(into)
	}
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("there is more than one value")
		}
	}
	if bad, is := errors.AsType[*json.UnmarshalTypeError](err); is && len(bad.Value) > mostValue {
		bad.Value = bad.Value[:mostValue] + "…" // the value of a number has all its digits
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkKeys rejects what encoding/json accepts: keys in a different case, duplicate keys, and null.
func checkKeys(raw json.RawMessage, into any, without []string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the arguments are not an object")
	}
	fields := reflect.TypeOf(into).Elem()
	known := map[string]bool{}
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		known[cmp.Or(name, fields.Field(i).Name)] = true
	}
	for _, name := range without {
		delete(known, name)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // keys are strings
		var value json.RawMessage
		switch {
		case !known[key]:
			return fmt.Errorf("unknown field %s", termtext.Quote(key))
		case seen[key]:
			return fmt.Errorf("field %q is there twice", key)
		}
		seen[key] = true
		if err := d.Decode(&value); err != nil {
			return err
		}
		if string(value) == "null" {
			return fmt.Errorf("field %q is null; leave it out", key)
		}
	}
	return nil
}
