package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/termtext"
	"metier/record"
)

// Problem is one problem with a run or its folder. Code is from an open list. Seq is the entry it
// concerns, or 0.
type Problem struct {
	Code   string `json:"code"`
	Seq    uint64 `json:"seq,omitempty"`
	On     string `json:"on,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Codes of this package. Codes of the record package (record_torn, record_altered, blob_erased and
// so on) are passed through.
const (
	CodeIDInvalid    = "run_id_invalid"     // not an id of the allowed form
	CodeExists       = "run_exists"         // Create found a folder of that id
	CodeNotFound     = "run_not_found"      // there is no such run
	CodeAmbiguous    = "run_ambiguous"      // a prefix, or latest, is more than one run
	CodeLocked       = "run_locked"         // another process writes to the run
	CodeFolderBad    = "run_folder_invalid" // a part of the folder is a link, or of another kind
	CodeNoArtifact   = "artifact_missing"   // a file that was written is gone
	CodeArtifact     = "artifact_altered"   // a file is not what the log says
	CodeNoResult     = "result_missing"     // a call of the model has no result
	CodeTwoResults   = "result_repeated"    // a call of the model has two results
	CodeDisagree     = "artifacts_disagree" // what two files say of a skill does not fit
	CodeStale        = "artifact_stale"     // a file is what an earlier log said
	CodeNoHeads      = "heads_missing"      // no heads are kept for this folder
	CodeRenamed      = "run_renamed"        // the folder does not have the name that it had when the run was recorded
	CodeHeadsBad     = "heads_damaged"      // the file of heads has lines that are none
	CodeHeadsOpen    = "heads_writable"     // another user can write the recorded heads
	CodeState        = "state_unwritable"   // heads cannot be kept where they should
	CodeHeads        = "heads_mismatch"     // the log is not the one whose heads were kept
	CodeStranger     = "run_unwitnessed"    // the record of a run was not written by this user here
	CodeUnanchored   = "record_unanchored"  // entries that no recorded head covers
	CodeAfterEnd     = "record_after_end"   // entries after the end of the run
	CodeNoStart      = "run_start_missing"  // turns of a run whose start the log does not hold
	CodeEmpty        = "record_empty"       // the log holds no entry
	CodeNoLog        = "record_missing"     // the log is gone, and heads of it are recorded
	CodeChild        = "child_unknown"      // a folder of a child that no call of the run began
	CodeNewer        = "record_newer"       // an entry that must be understood is not
	CodeUnknown      = "record_unknown"     // an entry that may be passed over is not understood
	CodeUnverified   = "run_unverified"     // Export was not told to take what does not verify
	CodeLost         = "outcome_unknown"    // an op was started and nobody knows how it ended
	CodeSuspect      = "injection_like"     // text of a skill reads like an injection
	CodeDrift        = "skill_drifted"      // a skill's bytes are not the recorded ones
	CodeRecovered    = "record_recovered"   // the log lost its tail in a crash
	CodeInterrupted  = "run_interrupted"    // nobody works on a run that is not over
	CodeModelFailed  = "model_failed"       // a model call ended the run's patience
	CodeOverflow     = "list_truncated"     // more runs than List looks at
	CodeContentGone  = "content_erased"     // a blob was deleted; its digest stands
	CodeContentWrong = "content_altered"    // a blob's bytes are not those of its digest
)

// fault wraps an error of the file system or the record package in an error of this package.
func fault(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*metier.Error](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	out := &metier.Error{Op: op, Path: path, Kind: metier.Unavailable, Code: "run_io", Err: err}
	if e, ok := errors.AsType[*record.Error](err); ok {
		out.Code, out.Path = string(e.Code), ""
		switch e.Code {
		case record.CodeDiskFull, record.CodeReadOnly, record.CodeIO:
		case record.CodeTooLarge:
			out.Kind = metier.LimitReached
		default:
			out.Kind, out.Hint = metier.Drift, "the record has changed since it was written; 'metier audit verify RUN' shows the changes"
			if path != "" && filepath.Ext(path) == "" { // a run's folder
				out.Hint = "the record has changed since it was written; 'metier audit verify " + termtext.Word(path) + "' shows the changes"
			}
		}
		return out
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && op != "create":
		out.Kind, out.Code = metier.NotFound, CodeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		out.Code, out.Hint = "read_only", "make the folder writable, or choose another one with Request.Artifacts"
	case atomicfile.IsFull(err):
		out.Code, out.Hint = "disk_full", "free some space and try again; existing files are intact"
	}
	return out
}

// StateUnwritable returns the error for a file or folder in a StateDir that cannot be written.
func StateUnwritable(path string, err error) error {
	hint := "make the folder writable, or specify another one with XDG_STATE_HOME: heads of records are kept there"
	if atomicfile.IsFull(err) {
		hint = "free some space there, or specify another folder with XDG_STATE_HOME: heads of records are kept there"
	}
	return &metier.Error{Op: "open", Path: path, Kind: metier.Unavailable, Code: CodeState, Hint: hint, Err: err}
}

func wrong(kind metier.Kind, code, path, hint, format string, a ...any) error {
	return &metier.Error{Op: "run", Kind: kind, Code: code, Path: path, Hint: hint, Err: fmt.Errorf(format, a...)}
}
