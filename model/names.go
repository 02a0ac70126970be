package model

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// NameMap maps metier's tool names to names that a provider accepts, and back. It is an immutable
// bijection over a set of tools and does not depend on their order.
type NameMap struct {
	limit   int
	allowed func(at int, c byte) bool
	toWire  map[string]string
	toOurs  map[string]string
}

const tailLen = 8 // hex digits of the hash of a name that had to be changed beyond its letters

// WireNames creates the provider's names for tools. A name that the provider accepts is unchanged.
// In other names, each byte that is not allowed at its position becomes '_'. If the result is
// longer than limit or not unique, its end is replaced by a hash of the whole name.
func WireNames(tools []ToolSpec, limit int, allowed func(at int, c byte) bool) *NameMap {
	m := &NameMap{limit: limit, allowed: allowed, toWire: make(map[string]string, len(tools)), toOurs: make(map[string]string, len(tools))}
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)

	plain := make(map[string]int, len(names)) // how many want this encoding
	for _, n := range names {
		w := m.encode(n)
		plain[w]++
		if w == n {
			m.set(n, n)
		}
	}
	for _, n := range names {
		if _, done := m.toWire[n]; done {
			continue
		}
		w := m.encode(n)
		if plain[w] > 1 || len(w) > limit {
			w = m.hashed(n)
		}
		m.set(n, w)
	}
	return m
}

func (m *NameMap) set(ours, wire string) { m.toWire[ours], m.toOurs[wire] = wire, ours }

// encode replaces bytes that are not allowed. The result may be too long.
func (m *NameMap) encode(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !m.allowed(i, c) {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "_"
	}
	if len(name) <= m.limit {
		return string(b)
	}
	return string(b) + "_" // never equal to the name itself, and longer than limit
}

// hashed returns the encoded name with a hash suffix, different from all wire names in use.
func (m *NameMap) hashed(name string) string {
	for salt := 0; ; salt++ {
		in := name
		if salt > 0 {
			in += "\x00" + strconv.Itoa(salt)
		}
		sum := sha256.Sum256([]byte(in))
		head := m.encode(name)
		head = head[:min(len(head), max(0, m.limit-tailLen-1))]
		w := head + "_" + hex.EncodeToString(sum[:])[:tailLen]
		if _, taken := m.toOurs[w]; !taken {
			return w
		}
	}
}

// Wire returns the provider's name of a tool. A tool that is not in the map (an old message may
// name one) gets a name by the same rule, different from all names in the map.
func (m *NameMap) Wire(ours string) string {
	if w, ok := m.toWire[ours]; ok {
		return w
	}
	w := m.encode(ours)
	if _, taken := m.toOurs[w]; taken || len(w) > m.limit {
		return m.hashed(ours)
	}
	return w
}

// Ours returns metier's name for the provider's name of a tool. If no tool has that name, it
// returns the name unchanged and ok is false.
func (m *NameMap) Ours(wire string) (name string, ok bool) {
	if n, ok := m.toOurs[wire]; ok {
		return n, true
	}
	return wire, false
}
