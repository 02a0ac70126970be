package cli

import (
	"encoding/json"
	"strings"
	"time"

	"metier"
	"metier/policy"
	"metier/skillmd"
)

// indexEntry are the fields that clients of an index of skills expect, beside those of skillRow. What the skill does
// not say is left out.
type indexEntry struct {
	SkillID       string          `json:"skillId"`
	SourceType    policy.Tier     `json:"sourceType"`   // builtin, org, user or third_party
	Hash          string          `json:"hash"`         // SHA-256 of SKILL.md in bare hex; "" until it was read whole
	LastModified  string          `json:"lastModified"` // RFC 3339, of SKILL.md; "" where its source has no times
	License       string          `json:"license,omitempty"`
	Compatibility string          `json:"compatibility,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	AllowedTools  *[]string       `json:"allowedTools,omitempty"` // null: not declared; an empty list allows nothing
}

func indexEntryOf(sk metier.Skill) indexEntry {
	f := sk.Head.Front
	e := indexEntry{SkillID: sk.ID.String(), SourceType: sk.Tier.SourceType(), Hash: strings.TrimPrefix(string(sk.Digest), "sha256:"), License: f.License, Compatibility: f.Compatibility}
	if sk.Head.ModTime != 0 {
		e.LastModified = time.Unix(0, sk.Head.ModTime).UTC().Format(time.RFC3339Nano)
	}
	if len(f.Metadata) > 0 {
		e.Metadata, _ = skillmd.Value{Kind: skillmd.Map, Map: f.Metadata}.MarshalJSON() // its error is always nil
	}
	if f.AllowedToolsDeclared {
		tools := append([]string{}, f.AllowedTools...)
		e.AllowedTools = &tools
	}
	return e
}
