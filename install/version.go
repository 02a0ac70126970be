package install

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// versionForm matches a version of up to three numbers, such as 1.2 or v1.2.3-rc.1. Its groups are the
// numbers and the identifiers of a prerelease.
var versionForm = regexp.MustCompile(`^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?$`)

// version is the version of a skill, as Semantic Versioning orders it.
type version struct {
	numbers [3]int
	given   int      // how many numbers are given
	pre     []string // identifiers of a prerelease
}

// parseVersion reads a version. Numbers that are missing are 0.
func parseVersion(text string) (v version, ok bool) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	for i, n := range m[1:4] {
		if n != "" {
			v.numbers[i], _ = strconv.Atoi(n) // it has nine digits at most
			v.given = i + 1
		}
	}
	if m[4] != "" {
		v.pre = strings.Split(m[4], ".")
	}
	return v, true
}

// compare orders versions. A prerelease comes before its release.
func (v version) compare(w version) int {
	if c := slices.Compare(v.numbers[:], w.numbers[:]); c != 0 {
		return c
	}
	if len(v.pre) == 0 || len(w.pre) == 0 {
		return cmp.Compare(len(w.pre), len(v.pre))
	}
	return slices.CompareFunc(v.pre, w.pre, compareIdentifiers)
}

// compareIdentifiers orders identifiers of prereleases: numbers by value, and before texts.
func compareIdentifiers(a, b string) int {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// next returns the version after all those that have the same first n numbers.
func (v version) next(n int) version {
	out := version{given: 3}
	copy(out.numbers[:n], v.numbers[:n])
	out.numbers[n-1]++
	return out
}

// limit is a part of a range: the versions on one side of a version.
type limit struct {
	op string
	v  version
}

// has reports whether a version is on the right side.
func (l limit) has(v version) bool {
	switch c := v.compare(l.v); l.op {
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	default:
		return c == 0
	}
}

// versions is a range of versions: those that are within all its limits. Without limits, any version
// is, and a skill needs none.
type versions []limit

// operators of a range, the longest first.
var operators = []string{">=", "<=", ">", "<", "=", "^", "~"}

// parseVersions reads a range such as 1.2.3, ">=1.2 <2", ^1.2, or ~1.2. A version without an operator
// is exact if it has three numbers. Otherwise, it stands for all versions that begin with it.
func parseVersions(text string) (versions, error) {
	var out versions
	fields := strings.Fields(strings.ReplaceAll(text, "*", ""))
	for i := 0; i < len(fields); i++ {
		op, rest := "", fields[i]
		for _, o := range operators {
			if after, ok := strings.CutPrefix(rest, o); ok {
				op, rest = o, after
				break
			}
		}
		if rest == "" && i+1 < len(fields) { // a space follows the operator
			i++
			rest = fields[i]
		}
		v, ok := parseVersion(rest)
		if !ok {
			return nil, fmt.Errorf("%q is not a version or a range such as \">=1.2 <2\"", text)
		}
		out = append(out, limitsOf(op, v)...)
	}
	return out, nil
}

// limitsOf returns the limits that an operator and a version stand for.
func limitsOf(op string, v version) []limit {
	upTo := 0 // numbers that all versions of the range share
	switch {
	case op == "^":
		upTo = min(v.given, slices.IndexFunc(append(v.numbers[:2:2], 1), func(n int) bool { return n != 0 })+1)
	case op == "~":
		upTo = min(v.given, 2)
	case op == "" && v.given < 3 && len(v.pre) == 0:
		upTo = v.given
	}
	if upTo == 0 {
		return []limit{{op, v}}
	}
	end := v.next(upTo)
	end.pre = []string{"0"} // without the prereleases of the first version after the range
	return []limit{{">=", v}, {"<", end}}
}

// has reports whether the version of a skill is in the range. Text that is not a version is in no range
// with limits.
func (r versions) has(text string) bool {
	v, ok := parseVersion(text)
	return len(r) == 0 || ok && !slices.ContainsFunc(r, func(l limit) bool { return !l.has(v) })
}
