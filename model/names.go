package model

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// NameMap maps our tool names to the ones a provider takes, and back. It is a bijection over the tools it was made for, does not
// change, and is the same for the same set of tools in any order.
type NameMap struct {
	limit   int
	allowed func(at int, c byte) bool
	toWire  map[string]string
	toOurs  map[string]string
}

const tailLen = 8 // hex digits of the hash of a name that had to be changed beyond its letters

// WireNames makes the names for tools. A name the provider takes as it is stays as it is; in others each byte that is not allowed at
// its place becomes '_'. What is then longer than limit, or the same as another's, gets a hash of the whole name as its tail.
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

// encode replaces what is not allowed; the result may be too long.
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

// hashed is the encoding with a tail; it avoids every wire name already given.
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

// Wire is the provider's name of a tool. One that is not in the map (an old message may name it) gets a name by the same rule that
// no tool in the map has.
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

// Ours is our name of a tool the provider named; ok is false when no tool has that name, and then the name comes back unchanged.
func (m *NameMap) Ours(wire string) (name string, ok bool) {
	if n, ok := m.toOurs[wire]; ok {
		return n, true
	}
	return wire, false
}
