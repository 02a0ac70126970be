package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
)

func TestWorkspaceDir_UnknownWorkingFolder(t *testing.T) {
	t.Parallel()
	_, err := engine.New(config.Env{}, engine.Options{}).WorkspaceDir("")
	if diff := cmp.Diff("workspace_missing", metier.CodeOf(err)); diff != "" {
		t.Errorf("code (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "the working folder is unknown") {
		t.Errorf("%v does not say what is unknown", err)
	}
}
