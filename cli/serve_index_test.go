package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The server serves the skills that list shows as loaded, until it is interrupted. It leaves nothing.
func TestServeIndex_ServesUntilInterrupted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tmp := t.TempDir()
	cmd := p.command("metier", "serve-index", "--listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	line, err := said.ReadString('\n')
	_, url, is := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !is {
		t.Fatalf("%q, %v", line, err)
	}
	res, err := http.Get(url + "/.well-known/agent-skills/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Skills []struct{ Name string } }
	err = json.NewDecoder(res.Body).Decode(&doc)
	res.Body.Close()
	if err != nil || !slices.Contains(doc.Skills, struct{ Name string }{"report"}) {
		t.Errorf("%v, %+v", err, doc)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, said)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "metier-site-*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
