package interop

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"metier/conformance/mcp"
)

// Variables that the part outside the namespace passes to the part inside.
const (
	envNPM    = "METIER_INTEROP_NPM"
	envMetier = "METIER_INTEROP_METIER"
	envDir    = "METIER_INTEROP_DIR"
)

var update = flag.Bool("update", false, "write the table of docs/MCP.md anew")

// TestMain fetches and builds what the tests need, then runs them in new
// namespaces: with only the loopback network, and where no client process
// outlives them.
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
	npm, err := mcp.Install("metier-mcp-clients", "the clients (364 MB, 1.1 GB unpacked)")
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
