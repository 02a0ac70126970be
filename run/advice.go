package run

import (
	"slices"
	"strings"

	"metier"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/record"
)

// Err returns the error for a verification that found problems, or nil. The user referred to the run
// as what. The hint may name a command that resumes the run: resume, followed by the run.
func (r VerifyReport) Err(what, resume string) error {
	if r.OK {
		return nil
	}
	ref := r.ID
	if strings.ContainsAny(what, `/\`) { // the ID alone could be that of another folder
		ref = termtext.Word(what)
	}
	code := "record_unverified"
	if len(r.Problems) > 0 {
		code = r.Problems[0].Code
	}
	return wrong(metier.Drift, code, "", r.advice(code, ref, resume+" "+ref), "the record of run %s fails verification: %s", r.ID, plural.Of(len(r.Problems), "problem"))
}

// advice returns what to do about the problems, the first of which has this code. Without recorded
// heads, nothing shows that the log is whole, so no file may be deleted.
func (r VerifyReport) advice(code, ref, resume string) string {
	only := len(r.Problems) == 1
	artifacts := len(r.Problems) > 0 && !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Code != CodeArtifact })
	switch {
	case code == CodeEmpty && r.holdsArtifacts():
		return "the run was recorded and its log is gone: keep the folder, and restore the log from an earlier copy or an export"
	case code == CodeEmpty:
		return "if another copy of the record exists, verify that copy; otherwise start the task as a new run"
	case artifacts && !r.HasHeads:
		return "keep every file: either the log was cut off or rewritten, or these files were changed. Compare them with an earlier copy or an export"
	case artifacts:
		return "the log is unchanged. Delete the files that differ, and copy them back from the archive that this command writes: metier runs export " + ref + " -o run.zip"
	case only && code == CodeUnanchored:
		return "another program wrote these entries, or a power failure lost their head. To move them to a file and continue without them: " + resume
	case only && code == CodeChild && r.HasHeads:
		return "another program wrote it; remove the folder. The run's own record is complete"
	case only && code == string(record.CodeTorn) && r.HasHeads:
		return "a crash or another program left a line that is not a whole entry; the entries before it are unchanged. To remove it and continue: " + resume
	}
	return "use an earlier copy or an export; do not continue this run"
}

// holdsArtifacts reports whether the run folder has any artifact.
func (r VerifyReport) holdsArtifacts() bool {
	for _, state := range r.Artifacts {
		if state != artifactMissing {
			return true
		}
	}
	return false
}
