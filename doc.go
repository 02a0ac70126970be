// Package metier is a runtime for Agent Skills: folders with a SKILL.md (YAML
// frontmatter, then Markdown) and other files, which an agent loads on demand.
//
//	folders ──Source──▶ Snapshot ──▶ Catalog ──▶ model
//	                        │                      │ calls
//	                        ▼                      ▼
//	                    activation ◀── Session.Call ──▶ tool
//	                        │              │
//	                        └────▶ log ◀───┘   every step, hash-chained
//
// The flow is find → disclose → activate → read → run → prove. [Build] indexes
// the roots that an operator mounts in a [Snapshot]. [Session.Catalog] returns
// what the model sees of them. [Session.Activate] and the tool load_skill load
// the instructions of one skill into a session. [Session.Read] and the tool
// read_skill_resource read single files. Every tool call on every surface goes
// through [Session.Call]: the tool states facts, policy decides, the claim is
// logged, the tool acts, and the result is released and logged.
//
// # Authority
//
// Skills are untrusted text. A skill can narrow the authority of a session, and
// never widen it. Only the operator's grants allow actions.
//
// # Compatibility
//
// Before version 1, exported names may change with a note in CHANGELOG.md.
// Error codes, reason codes, event types, and artifact fields are only added,
// never changed or removed.
package metier
