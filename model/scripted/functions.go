package scripted

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// row is one row of a table, keyed by column name.
type row = map[string]string

type group struct {
	Key  string
	Rows []row
}

// pure are the functions that do not depend on the conversation.
var pure = template.FuncMap{
	"lines": func(s string) []string {
		return strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	},
	"split":    func(sep, s string) []string { return strings.Split(s, sep) },
	"trim":     strings.TrimSpace,
	"contains": func(sub, s string) bool { return strings.Contains(s, sub) },
	"match":    match,
	"matches":  matches,
	"csv":      table,
	"json":     toJSON,
	"col":      column,
	"groupBy":  groupBy,
	"rankBy":   rankBy,
	"sortBy":   sortBy,
	"count":    func(list any) (int, error) { l, err := items(list); return len(l), err },
	"sum":      func(list any) (float64, error) { n, err := numbers(list); return total(n), err },
	"avg":      average,
	"add":      add,
	"num":      func(v any) (string, error) { n, err := number(v); return strconv.FormatFloat(n, 'f', -1, 64), err },
	"money":    money,
}

func match(re, s string) (string, error) {
	all, err := find(re, s, 1)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

func matches(re, s string) ([]string, error) { return find(re, s, -1) }

func find(re, s string, n int) ([]string, error) {
	r, err := regexp.Compile(re)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range r.FindAllStringSubmatch(s, n) {
		out = append(out, m[min(1, len(m)-1)])
	}
	return out, nil
}

func table(s string) ([]row, error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(s, "\uFEFF")))
	r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace = -1, true, true
	all, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no header line")
	}
	rows := []row{}
	for i, rec := range all[1:] {
		if len(rec) != len(all[0]) {
			return nil, fmt.Errorf("row %d has %d cells, the header %d", i+1, len(rec), len(all[0]))
		}
		o := row{}
		for j, name := range all[0] {
			o[strings.TrimSpace(name)] = strings.TrimSpace(rec[j])
		}
		rows = append(rows, o)
	}
	return rows, nil
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

func cell(r row, name string) (string, error) {
	v, ok := r[name]
	if !ok {
		return "", fmt.Errorf("no column %q", name)
	}
	return v, nil
}

func column(name string, rows []row) ([]string, error) {
	out := make([]string, len(rows))
	for i, r := range rows {
		v, err := cell(r, name)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// order compares as numbers if both are numbers, and otherwise as text.
func order(a, b string) int {
	x, errX := number(a)
	y, errY := number(b)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

func groupBy(name string, rows []row) ([]group, error) {
	var out []group
	for _, r := range rows {
		v, err := cell(r, name)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(out, func(g group) bool { return g.Key == v })
		if at < 0 {
			at = len(out)
			out = append(out, group{Key: v})
		}
		out[at].Rows = append(out[at].Rows, r)
	}
	return out, nil
}

// rankBy orders groups by the sum of a column, largest first.
func rankBy(name string, groups []group) ([]group, error) {
	sums := map[string]float64{}
	for _, g := range groups {
		cells, err := column(name, g.Rows)
		if err != nil {
			return nil, err
		}
		ns, err := numbers(cells)
		if err != nil {
			return nil, err
		}
		sums[g.Key] = total(ns)
	}
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(sums[b.Key], sums[a.Key]) })
	return out, nil
}

// sortBy is called as sortBy NAME ROWS or sortBy NAME "desc" ROWS.
func sortBy(name string, rest ...any) ([]row, error) {
	if len(rest) == 0 || len(rest) > 2 {
		return nil, errors.New("sortBy takes a column, an optional desc, and rows")
	}
	rows, ok := rest[len(rest)-1].([]row)
	if !ok || (len(rest) == 2 && rest[0] != "desc") {
		return nil, errors.New("sortBy takes a column, an optional desc, and rows")
	}
	if _, err := column(name, rows); err != nil {
		return nil, err
	}
	sign := 1
	if len(rest) == 2 {
		sign = -1
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return sign * order(a[name], b[name]) })
	return rows, nil
}

// items returns the elements of any list.
func items(list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if !v.IsValid() {
		return nil, nil
	}
	if v.Kind() != reflect.Slice {
		return nil, fmt.Errorf("not a list: %T", list)
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = v.Index(i).Interface()
	}
	return out, nil
}

// number parses a number, which may have thousands separators and a currency sign.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case int:
		return float64(v), nil
	case float64:
		return v, nil
	}
	s := strings.TrimSpace(strings.TrimLeft(strings.ReplaceAll(fmt.Sprint(v), ",", ""), "$€£ "))
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("%.40q is not a number", fmt.Sprint(v))
	}
	return n, nil
}

func numbers(list any) ([]float64, error) {
	l, err := items(list)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(l))
	for i, v := range l {
		if out[i], err = number(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func total(n []float64) (t float64) {
	for _, v := range n {
		t += v
	}
	return t
}

func average(list any) (float64, error) {
	n, err := numbers(list)
	if err == nil && len(n) == 0 {
		err = errors.New("the average of nothing")
	}
	return total(n) / float64(max(len(n), 1)), err
}

func add(a, b any) (float64, error) {
	n, err := numbers([]any{a, b})
	return total(n), err
}

// money formats a number like 1,234.50.
func money(v any) (string, error) {
	n, err := number(v)
	s := strconv.FormatFloat(n, 'f', 2, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, cents, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + "." + cents, err
}
