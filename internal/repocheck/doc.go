// Package repocheck implements this repository's own rules as checks of its files: sizes, names,
// build tags, skips, unwanted words, the commands in its documents, and the table of verified
// requirements. Layers and the limits of the root package are checked in the root package, using
// this package to read files and imports. Only tests import it. To change a rule, change both its
// check and the sentence in AGENTS.md.
package repocheck
