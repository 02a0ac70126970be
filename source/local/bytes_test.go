package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/internal/testenv"
	"metier/source/local"
	"metier/source/sourcetest"
)

const scanned = "METIER_TEST_SCANNED"

// A scan reads only the head of a SKILL.md, however long the file is. The scan
// runs in a separate process, because the system counts what a process reads.
//
// req: C-002
func TestScan_ReadsOnlyTheHead(t *testing.T) {
	const long, most = 64 << 20, 64 << 10
	if root := os.Getenv(scanned); root != "" {
		before := bytesRead(t)
		got := outcome(t, open(t, root, &local.Options{}))
		t.Logf("SCANNED %d %q", bytesRead(t)-before, got)
		return
	}
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "needs /proc/self/io, which counts what a process reads")
	}
	root := base(t)
	file := put(t, root, "long/SKILL.md", sourcetest.Skill("long", "is long")+"text\n")
	if err := os.Truncate(file, long); err != nil { // zeros that take no space on the disk
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), scanned+"="+root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, line, _ := strings.Cut(string(out), "SCANNED ")
	var n int64
	var skills string
	if _, err := fmt.Sscan(line, &n, &skills); err != nil || !strings.Contains(skills, "long") {
		t.Fatalf("%v in:\n%s", err, out)
	}
	if n > most {
		t.Errorf("the scan read %d bytes of %s, which has %d; want at most %d", n, filepath.Base(file), long, most)
	}
}

// bytesRead counts what this process has read from files.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "rchar: %d", &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
