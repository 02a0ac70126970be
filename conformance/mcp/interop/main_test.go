package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// What the part outside the namespace tells the one inside.
const (
	envNPM    = "METIER_INTEROP_NPM"
	envMetier = "METIER_INTEROP_METIER"
	envDir    = "METIER_INTEROP_DIR"
)

var update = flag.Bool("update", false, "write the table of docs/MCP.md anew")

// TestMain fetches and builds what the tests need, then runs them in namespaces
// of their own: no network but loopback, and no process of a client outlives
// them.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(envNPM) != "" {
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		code = 1
	}
	os.Exit(code)
}

func outside() (int, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return 1, fmt.Errorf("the pinned clients are Linux's for amd64, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	npm, err := install()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "metier-interop")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "metier")
	build := exec.Command("go", "build", "-o", bin, "./cmd/metier")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w: %s", err, out)
	}
	args := []string{"--net", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	args = append(args, "sh", "-c", `ip link set lo up && exec "$0" "$@"`)
	c := exec.Command("unshare", append(args, os.Args...)...)
	c.Env = append(os.Environ(), envNPM+"="+npm, envMetier+"="+bin, envDir+"="+dir)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); c.ProcessState == nil {
		return 1, fmt.Errorf("unshare: %w", err)
	}
	return c.ProcessState.ExitCode(), nil
}

// install puts the clients into the user's cache, once for each lock file, and
// returns where.
func install() (string, error) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "metier-mcp-clients", hex.EncodeToString(sum[:8]))
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	fmt.Println("interop: fetching the clients from npm (364 MB, 1.1 GB unpacked), once, into", dir)
	begun := time.Now()
	c := exec.Command("timeout", "600", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	fmt.Printf("interop: fetched in %.0f s\n", time.Since(begun).Seconds())
	return dir, os.WriteFile(done, nil, 0o644)
}
