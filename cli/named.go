package cli

// Limits of files that an invocation names.
const (
	maxConfig = 1 << 20 // configuration, run file
	maxPrompt = 8 << 20
	maxSchema = 1 << 20
)
