package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
)

// Every command reports files and folders that the user cannot read, with the mode to check. They
// do not hide other skills.
func TestUnreadableSkills(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	ws := t.TempDir()
	const text = "---\nname: good\ndescription: Use when asked.\n---\nText.\n"
	for _, p := range []string{"good", "file", "closed", "group/inner"} {
		dir := filepath.Join(ws, "bad", filepath.FromSlash(p))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(strings.Replace(text, "good", filepath.Base(p), 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for p, mode := range map[string]os.FileMode{"file/SKILL.md": 0, "closed": 0, "group": 0o300} { // group: can be entered, not listed
		p = filepath.Join(ws, "bad", filepath.FromSlash(p))
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(p, 0o755) })
	}
	metier := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = cli.Main(t.Context(), args, []string{"HOME=" + filepath.Join(ws, "nowhere")}, cli.IO{In: strings.NewReader(""), Out: &o, Err: &e, Dir: ws})
		return code, o.String(), e.String()
	}
	// Nor does a root that was not named.
	found := filepath.Join(ws, ".agents")
	if err := os.MkdirAll(filepath.Join(found, "skills"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(found, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(found, 0o755) })
	if code, out, errs := metier("list", "--all"); code != 0 || !strings.Contains(out, " loaded   builtin ") || !strings.Contains(out, "\nskills         refused  project  unreadable-directory: ") {
		t.Errorf("list: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs := metier("list", "--all", "--skills-root", "bad")
	if code != 0 || !strings.Contains(out, "\ngood    loaded   ") {
		t.Errorf("list: exit %d\n%s%s", code, out, errs)
	}
	for p, want := range map[string]string{"file": "unreadable-skill", "closed": "unreadable-directory", "group": "unreadable-directory"} {
		if !strings.Contains(out, want+": ") {
			t.Errorf("list names no %s:\n%s", want, out)
		}
		code, out, errs := metier("explain", filepath.Join("bad", p), "--skills-root", "bad")
		if code != 0 || !strings.HasPrefix(out, p+" is refused\n") || !strings.Contains(out, "\n  rule   "+want+"\n") || !strings.Contains(out, "\n  fix    ") {
			t.Errorf("explain %s: exit %d\n%s%s", p, code, out, errs)
		}
		if code, out, errs := metier("show", filepath.Join("bad", p), "--skills-root", "bad"); code != 0 || !strings.Contains(out, "refused: "+want) {
			t.Errorf("show %s: exit %d\n%s%s", p, code, out, errs)
		}
		code, out, errs = metier("validate", filepath.Join("bad", p), filepath.Join("bad", "good"))
		if code != 1 || !strings.Contains(out, "Valid skill: bad/good\n") || !strings.Contains(errs, "Validation failed for bad/"+p) {
			t.Errorf("validate %s: exit %d\n%s%s", p, code, out, errs)
		}
	}
}
