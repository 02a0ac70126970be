package policy

import "slices"

// evidence reports whether the turn holds a direct command.
func evidence(slots []Slot) bool {
	return slices.ContainsFunc(slots, func(s Slot) bool { return s.Role == DirectCommand })
}

// judgeMode is the table mode × effect × "a direct-command slot exists".
//
//	mode              read            write, side-effect
//	disabled          allow           allow
//	observe           allow           allow with evidence, else warn
//	enforce-explicit  allow           allow with evidence, else deny
//	enforce-strict    allow with evidence, else deny, whatever the effect
//
// An unknown mode denies. The codes are cfc_<mode>_read, _direct_command and
// _requires_direct_command, with the prefix write_file_ for the effect write.
func judgeMode(m Mode, e Effect, direct bool) Decision {
	prefix := map[Mode]string{Observe: "observe", EnforceExplicit: "enforce_explicit", EnforceStrict: "enforce_strict"}[m]
	family := "cfc_"
	if e == Write {
		family = "write_file_"
	}
	if m == Disabled {
		return Decision{Outcome: Allow, Code: family + "disabled", Rule: "enforcement_mode=disabled"}
	}
	d := Decision{Rule: "enforcement_mode=" + string(m)}
	switch {
	case prefix == "":
		d.Outcome, d.Code, d.Reason = Deny, CodeInvalidCall, "unknown enforcement mode"
	case e == Read && m != EnforceStrict:
		d.Outcome, d.Code = Allow, family+prefix+"_read"
	case direct:
		d.Outcome, d.Code = Allow, family+prefix+"_direct_command"
	case m == Observe:
		d.Outcome, d.Code = Warn, family+prefix+"_requires_direct_command"
		d.Reason = "no direct command of this turn covers the call"
	default:
		d.Outcome, d.Code = Deny, family+prefix+"_requires_direct_command"
		d.Reason = "the mode requires a direct command in this turn"
	}
	return d
}
