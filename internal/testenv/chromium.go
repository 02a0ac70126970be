package testenv

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// running is the shared browser of a test binary and the number of tests that use it.
var running struct {
	sync.Mutex
	users    int
	cmd      *exec.Cmd
	dir      string
	endpoint string
}

// Chromium returns the DevTools endpoint of a headless Chromium with an empty profile, as
// http://127.0.0.1:PORT. Concurrent tests of one binary share it. The last one ends it.
func Chromium(t testing.TB) string {
	t.Helper()
	program := NeedTool(t, "chromium", "chromium")
	running.Lock()
	defer running.Unlock()
	if running.users == 0 {
		startChromium(t, program)
	}
	running.users++
	t.Cleanup(func() {
		running.Lock()
		defer running.Unlock()
		if running.users--; running.users == 0 {
			stopChromium()
		}
	})
	return running.endpoint
}

// chromiumFlags keep Chromium quiet and off every network except loopback.
var chromiumFlags = []string{"--headless=new", "--remote-debugging-port=0", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--mute-audio", "--no-pings", "--no-proxy-server"}

func startChromium(t testing.TB, program string) {
	t.Helper()
	if os.Geteuid() != 0 && tryChromium(t, program) {
		return
	}
	// Chromium's own sandbox refuses to run as root and is not supported on every machine.
	if !tryChromium(t, program, "--no-sandbox") {
		t.Fatal("chromium does not start, or names no endpoint")
	}
}

// tryChromium reports whether Chromium started.
func tryChromium(t testing.TB, program string, more ...string) bool {
	t.Helper()
	dir, err := os.MkdirTemp("", "metier-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(append([]string{"--user-data-dir=" + filepath.Join(dir, "profile")}, chromiumFlags...), append(more, "about:blank")...)...)
	cmd.Env = []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "LANG=C.UTF-8"}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	patience := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	lines, said := bufio.NewScanner(stderr), []string{}
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "DevTools listening on ws://"); ok {
			host, _, _ := strings.Cut(at, "/")
			running.cmd, running.dir, running.endpoint = cmd, dir, "http://"+host
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return true
		}
		said = append(said, lines.Text())
	}
	_ = cmd.Wait()
	_ = os.RemoveAll(dir)
	t.Logf("chromium %v: %s", more, strings.Join(said, "\n"))
	return false
}

// stopChromium asks Chromium to exit and kills it if it does not.
func stopChromium() {
	cmd := running.cmd
	if cmd.Process.Signal(os.Interrupt) != nil {
		_ = cmd.Process.Kill()
	}
	force := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	force.Stop()
	_ = os.RemoveAll(running.dir)
	running.cmd = nil
}
