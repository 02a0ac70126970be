package policy

// Reason codes. The cfc_ and write_file_ families come from the table of
// enforcement modes (see modes.go); the others are listed here. The list is
// open: a later version may add codes and removes none.
const (
	CodeInvalidCall    = "invalid_tool_call"  // arguments or tool name could not be read
	CodeToolNotAllowed = "tool_not_allowed"   // no grant for the tool
	CodeSkillDenied    = "skill_denied"       // the operator denied this skill
	CodePathDenied     = "path_denied"        // the path is in the deny set
	CodePathReadOnly   = "path_read_only"     // a write into a skill folder or a protected one
	CodePathOutside    = "path_outside"       // neither workspace nor a granted skill folder
	CodeNotNarrowed    = "allowed_tools"      // an active skill's allowed-tools exclude the call
	CodeNarrowAdvice   = "allowed_tools_note" // the same, where the setting only advises
	CodeAnswered       = "approved"           // a question was answered with yes
	CodeRefused        = "refused"            // a question was answered with no
	CodeUnmediated     = "unmediated_output"  // Release: nobody mediated this result
	CodeReleased       = "released"           // Release: may be shown
)
