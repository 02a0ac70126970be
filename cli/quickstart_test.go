package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"metier/internal/testenv"
)

// forbidden are shell commands that make the kernel refuse a primitive of the
// sandbox to what they run. They need capabilities over their own namespaces,
// and drop them.
var forbidden = map[string]string{
	"user-namespaces": `echo 0 > /proc/sys/user/max_user_namespaces`,
	"proc":            `mount -t tmpfs none /proc/sys`,
}

// without returns the command line that runs another one without a primitive.
func without(t *testing.T, primitive string) []string {
	t.Helper()
	unshare, setpriv := testenv.NeedTool(t, "unshare", "util-linux"), testenv.NeedTool(t, "setpriv", "util-linux")
	return []string{unshare, "--user", "--mount", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c",
		forbidden[primitive] + ` && exec ` + setpriv + ` --inh-caps=-all --ambient-caps=-all "$@"`, "sh"}
}

// quickstart is a copy of the example and of the program, which a user may
// enter and write to.
type quickstart struct {
	t       *testing.T
	dir     string
	metier  string
	command []string // what runs the program; empty: it runs directly
	env     []string
}

func newQuickstart(t *testing.T, uid int) *quickstart {
	t.Helper()
	dir, err := os.MkdirTemp(testenv.Shared(), "metier-quickstart-") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	q := &quickstart{t: t, dir: filepath.Join(dir, "quickstart"), metier: filepath.Join(dir, "metier")}
	if err := copyTree(filepath.Join("..", "examples", "quickstart"), q.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(q.dir, "report.md")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	testenv.WriteProgram(t, q.metier, b)
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err == nil && uid != os.Geteuid() {
			err = os.Lchown(p, uid, uid)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	q.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "OLLAMA_HOST=127.0.0.1:1", "GORACE=atexit_sleep_ms=10"}
	return q
}

// run runs the example and returns its answer and its report.
func (q *quickstart) run() (answer, report string) {
	q.t.Helper()
	line := append(q.command, q.metier, "run", "-f", filepath.Join(q.dir, "run.yaml"))
	var out, errs strings.Builder
	c := exec.CommandContext(q.t.Context(), line[0], line[1:]...)
	c.Dir, c.Env, c.Stdout, c.Stderr = q.dir, q.env, &out, &errs
	if err := c.Run(); err != nil {
		q.t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	b, err := os.ReadFile(filepath.Join(q.dir, "report.md"))
	if err != nil {
		q.t.Fatal(err)
	}
	return out.String(), string(b)
}

// The quickstart's report contains the result of a skill's script in the sandbox, for any user, and
// depends on its input.
func TestQuickstartRunsAScriptInTheSandbox(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs have a sandbox on Linux only")
	}
	users := map[string]int{"as who tests": os.Geteuid()}
	if os.Geteuid() == 0 {
		users["as an ordinary user"] = 65534
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuickstart(t, uid)
			if id := strconv.Itoa(uid); uid != os.Geteuid() {
				q.command = []string{testenv.NeedTool(t, "setpriv", "util-linux"), "--reuid=" + id, "--regid=" + id, "--clear-groups"}
			}
			answer, report := q.run()
			want(t, report, "| south | 3 | 1,058.90 | 48.1 % |\n| west | 2 | 599.80 | 27.2 % |\n| north | 3 | 544.40 | 24.7 % |\n",
				"by scripts/groups.sh of the skill table-report, in a sandbox. Their totals add up to\n2,203.10.")
			want(t, answer, "Wrote report.md: 8 orders, 2,203.10 in total.\n")
			if strings.Contains(answer, "skipped") {
				t.Errorf("answer: %s", answer)
			}
			executions := q.artifact("skill-script-executions.json")
			want(t, executions, `"entry": "table-report:scripts/groups.sh"`, `"status": "executed"`, `"backend": "native"`, `"level": "L2"`, `"exitCode": 0`)

			data := filepath.Join(q.dir, "data", "orders.csv")
			b, err := os.ReadFile(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(data, []byte(strings.Replace(string(b), "840.00", "1840.00", 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			_, report = q.run()
			want(t, report, "| south | 3 | 2,058.90 | 64.3 % |\n", "\n3,203.10.")
		})
	}
}

// If the machine has no sandbox, the quickstart names what is missing, skips the script, says so in
// its report and its answer, and exits with 0. The kernel removes the primitive, not a switch of
// metier.
func TestQuickstartSaysWhatTheSandboxLacksAndEndsWell(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "primitives are taken away on Linux only")
	}
	for primitive := range forbidden {
		t.Run(primitive, func(t *testing.T) {
			t.Parallel()
			q := newQuickstart(t, os.Geteuid())
			q.command = without(t, primitive)
			answer, report := q.run()
			lacks := "sandbox_unavailable: run: the sandbox native cannot run here: " + primitive + ": "
			want(t, report, "| south | 3 | 1,058.90 |\n| west | 2 | 599.80 |\n| north | 3 | 544.40 |\n",
				"without scripts/groups.sh of the skill table-report, which could not run here:\n"+lacks)
			want(t, answer, "Wrote report.md: 8 orders, 2,203.10 in total.\nThe script of the skill was skipped: "+lacks)
			want(t, q.artifact("skill-script-executions.json"), `"status": "error"`, `"exitCode": null`, `"code": "sandbox_unavailable"`)
		})
	}
}

// artifact returns a file of the example's newest run.
func (q *quickstart) artifact(name string) string {
	q.t.Helper()
	match, err := filepath.Glob(filepath.Join(q.dir, ".metier", "runs", "*", name))
	if err != nil || len(match) == 0 {
		q.t.Fatalf("there is no %s: %v", name, err)
	}
	b, err := os.ReadFile(match[len(match)-1])
	if err != nil {
		q.t.Fatal(err)
	}
	return string(b)
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}
