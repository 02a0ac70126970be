package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/config"
	"metier/engine"
	"metier/run"
)

// The record has what the user was told, once, and before the end of the run.
func TestRun_RecordsNotices(t *testing.T) {
	t.Parallel()
	records := t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	r, o := driven(t, e, engine.Request{Prompt: "Look.", Deny: []string{"reprot"}, Artifacts: records, Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
	var given, recorded []string
	for _, n := range o.Notices {
		given = append(given, n.Code+" "+n.Severity+" "+n.Text)
	}
	report := reportOf(t, filepath.Join(records, r.ID()))
	for _, n := range report.Notices {
		recorded = append(recorded, n.Code+" "+n.Severity+" "+n.Text)
	}
	if diff := cmp.Diff([]string{`deny_unmatched note there is no skill "reprot" to deny`}, given); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(given, recorded); diff != "" {
		t.Errorf("recorded (-given +recorded):\n%s", diff)
	}
	if diff := cmp.Diff([]run.Problem{}, report.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func reportOf(t *testing.T, dir string) (r run.Report) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "run-report.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}
