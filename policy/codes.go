package policy

// Reason codes. The cfc_ and write_file_ families come from the table of
// enforcement modes (see modes.go); the others are listed here. The list is
// open: a later version may add codes and removes none.
const (
	CodeInvalidCall    = "invalid_tool_call"            // arguments or tool name could not be read
	CodeToolNotAllowed = "tool_not_allowed"             // no grant for the tool
	CodeProfile        = "subagent_profile_allowed"     // a subagent with this profile may start
	CodeProfileDenied  = "subagent_profile_not_allowed" // no grant for the subagent profile
	CodeSkillDenied    = "skill_denied"                 // the operator denied this skill
	CodeRuleDenied     = "rule_denied"                  // a deny rule of the operator
	CodePathDenied     = "path_denied"                  // the path is in the deny set
	CodePathReadOnly   = "path_read_only"               // a write into a skill folder or a protected one
	CodePathOutside    = "path_outside"                 // neither workspace nor a granted skill folder
	CodeNotNarrowed    = "allowed_tools"                // an active skill's allowed-tools exclude the call
	CodeNarrowAdvice   = "allowed_tools_note"           // the same, if the setting only advises
	CodeScriptsOff     = "script_not_allowed"           // scripts are off
	CodeScriptUnlisted = "script_not_allowlisted"
	CodeNotActivated   = "skill_not_activated"    // tiered: the script's skill is not active
	CodeNetworkDenied  = "network_not_allowed"    // no network, or no grant for a host
	CodeServedAsk      = "served_needs_approval"  // a program, while a skill of an MCP server is acted on
	CodeSkillAsk       = "skill_needs_approval"   // an ask rule for the skill
	CodeRuleAsk        = "rule_needs_approval"    // an ask rule for the call
	CodeDestructive    = "destructive_act"        // it would destroy something
	CodeScriptApproval = "script_needs_approval"  // by tier, setting or rule
	CodeNetworkAsk     = "network_needs_approval" // a host that was not granted
	CodeAnswered       = "approved"               // a question was answered with yes
	CodeRefused        = "refused"                // a question was answered with no
	CodeUnmediated     = "unmediated_output"      // Release: the result was not mediated
	CodeReleased       = "released"               // Release: the model may see the result
)
