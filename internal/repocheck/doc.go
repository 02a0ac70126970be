// Package repocheck holds the rules this repository keeps about itself, as checks
// over its files: sizes, names, build tags, skips, words that do not belong
// here, the commands its documents show, the table of proven requirements.
// Layers and the caps of the root package are checked at the root, with what
// this package knows about files and imports. Only tests import it; to change
// a rule, change its check and the sentence in AGENTS.md together.
package repocheck
