package skillmd

// ParserVersion changes whenever any input gives another Front or other diagnostics than before. Who keeps what was parsed keeps
// it with this number and parses anew when it differs. A test of the local source notices most changes that forget it.
const ParserVersion = 2

// FrontOf gives the Front that had these Fields when it was parsed, for who keeps only them: it is never another one, since
// the typed fields are views of Fields. Findings are not made again.
func FrontOf(fields []Field) Front {
	f := Front{Present: true, Fields: fields}
	r := reader{quiet: true}
	for _, field := range fields {
		f.take(&r, field)
	}
	return f
}
