// Package metier is a runtime for Agent Skills: folders with a SKILL.md (YAML
// frontmatter, then Markdown) and files beside it, which an agent loads step by
// step.
//
//	folders ──Source──▶ Snapshot ──▶ Catalog ──▶ model
//	                        │                      │ calls
//	                        ▼                      ▼
//	                    activation ◀── Session.Call ──▶ tool
//	                        │              │
//	                        └────▶ log ◀───┘   every step, hash-chained
//
// The flow is find → disclose → activate → read → run → prove. [Build] turns
// the roots an operator mounts into a [Snapshot]; [Session.Catalog] says what
// the model is told; [Session.Activate] and the tool load_skill put one
// skill's instructions into a session; [Session.Read] and the tool
// read_skill_resource read single files. Every tool call on every surface goes
// through [Session.Call]: the tool states facts, policy decides, the claim is
// logged, the tool acts, the result is released and logged.
//
// # Authority
//
// Skills are untrusted text. What a skill says can narrow what a session may do
// and never widen it; only the operator's grants allow anything.
//
// # Compatibility
//
// Until version 1 exported names may change with a note in CHANGELOG.md. Error
// codes, reason codes, event types and artifact fields are only ever added to.
package metier
