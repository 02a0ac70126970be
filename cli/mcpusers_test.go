package cli_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"metier/internal/testenv"
)

// A server without tokens has only clients of the user who started it. With tokens, everyone who
// has one can call.
func TestMCP_RefusesOtherUsers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "only Linux tells whose a connection is")
	}
	setpriv := testenv.NeedTool(t, "setpriv", "util-linux")
	ask := func(w *web, uid int) string {
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		const text = `exec 3<>/dev/tcp/127.0.0.1/%s; printf 'GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3; cat <&3`
		cmd := exec.CommandContext(t.Context(), setpriv, "bash", "-c", fmt.Sprintf(text, u.Port()))
		if uid != os.Geteuid() {
			cmd.Args = append([]string{setpriv, "--reuid=" + strconv.Itoa(uid), "--clear-groups"}, cmd.Args[1:]...)
		}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	p := newPlace(t)
	file := filepath.Join(p.home, "tokens")
	if err := os.WriteFile(file, []byte("ada token-of-ada-1234567890\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, closed := p.servesHTTP(), p.servesHTTP("--token-file", file)
	others := []int{os.Geteuid()}
	if others[0] == 0 { // only root can start a process of another user
		others = append(others, 65534)
	}
	const refusal = "only programs run by the user who started this server can call it"
	for _, uid := range others {
		if got := ask(open, uid); strings.Contains(got, "403 Forbidden") != (uid != os.Geteuid()) || strings.Contains(got, refusal) != (uid != os.Geteuid()) {
			t.Errorf("without tokens, user %d: %s", uid, got)
		}
		if got := ask(closed, uid); !strings.HasPrefix(got, "HTTP/1.1 401 ") {
			t.Errorf("with tokens, user %d: %s", uid, got)
		}
	}
	if said := open.end(false) + closed.end(false); strings.Contains(said, "every user") {
		t.Errorf("the servers said %q", said)
	}
}
