package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// lockFields are the names of all fields in a lock.
var lockFields = func() (out []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[Lock](), reflect.TypeFor[Entry](), reflect.TypeFor[LockedFile]()} {
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				out = append(out, name)
			}
		}
	}
	return out
}()

// isFree reports whether the names in the object at a depth are those of skills or files, not of fields.
func isFree(depth int) bool { return depth == 2 || depth == 4 }

// unambiguous reports a lock that a person can understand differently than a program: one with a name
// twice, or with the name of a field in another case.
func unambiguous(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var open []map[string]bool // the names in each open object; nil for an array
	isName := false
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name, isText := t.(string)
		switch {
		case t == json.Delim('{'):
			open = append(open, map[string]bool{})
		case t == json.Delim('['):
			open = append(open, nil)
		case t == json.Delim('}') || t == json.Delim(']'):
			open = open[:len(open)-1]
		case isText && isName:
			names := open[len(open)-1]
			if names[name] {
				return fmt.Errorf("it has the name %q twice in one object", name)
			}
			for _, f := range lockFields {
				if !isFree(len(open)) && f != name && strings.EqualFold(f, name) {
					return fmt.Errorf("it has the name %q; write %q", name, f)
				}
			}
			names[name], isName = true, false
			continue
		}
		isName = len(open) > 0 && open[len(open)-1] != nil
	}
}
