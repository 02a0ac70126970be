// Package skills holds the skills that come with metier. They are embedded,
// so that they are there without a source tree.
package skills

import "embed"

// FS holds one folder per skill.
//
//go:embed all:*
var FS embed.FS
