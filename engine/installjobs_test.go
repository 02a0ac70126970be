package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/install"
	"metier/settings"
)

func TestInstallJobs_InstallIntoTheProjectOfTheOwner(t *testing.T) {
	t.Parallel()
	source, projects := t.TempDir(), map[string]string{"ann": t.TempDir(), "bob": t.TempDir()}
	write(t, filepath.Join(source, "pdf", "SKILL.md"), "---\nname: pdf\ndescription: Read PDF files. Use for PDF files.\n---\nRead.\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	j := e.InstallJobs(func(owner string) (engine.Request, error) {
		q := engine.Request{Workspace: projects[owner]}
		if owner == "bob" { // installs nothing from this machine
			q.Layers = []settings.Layer{{Name: "test", Operator: true, Values: map[string]string{"install": "registry"}}}
		}
		return q, nil
	}, install.JobOptions{})
	t.Cleanup(j.Close)
	got := map[string]string{}
	for _, owner := range []string{"ann", "bob"} {
		started, err := j.Start(owner, install.Request{Source: install.Source{Kind: install.Folder, Location: source}})
		if err != nil {
			t.Fatal(err)
		}
		x, err := j.Wait(t.Context(), owner, started.ID)
		if err != nil {
			t.Fatal(err)
		}
		got[owner] = string(x.Status) + x.Code
	}
	if diff := cmp.Diff(map[string]string{"ann": "done", "bob": "failedinstall_not_allowed"}, got); diff != "" {
		t.Errorf("how the jobs ended (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(projects["ann"], ".agents", "skills", "pdf", "SKILL.md")); err != nil {
		t.Error(err)
	}
}

func TestInstallation_SearchNeedsThePermissionOfTheSettings(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	in, err := e.Install(t.Context(), engine.Request{Workspace: t.TempDir(), Layers: []settings.Layer{{Name: "test", Operator: true, Values: map[string]string{"install": "local"}}}}, false, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	if _, err := in.Search(t.Context(), "http://127.0.0.1:1", "pdf", 0); metier.CodeOf(err) != "install_not_allowed" {
		t.Errorf("Search: %v, want install_not_allowed", err)
	}
}
