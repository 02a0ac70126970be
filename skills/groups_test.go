package skills_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/internal/testenv"
	"metier/skills"
)

// The script of table-report sums what it can read, names what it leaves out,
// and fails without output on input that it would misread.
func TestGroupsAreSummed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "the script is for a POSIX shell")
	}
	sh := testenv.NeedTool(t, "sh", "dash")
	testenv.NeedTool(t, "awk", "mawk")
	code, err := skills.FS.ReadFile("table-report/scripts/groups.sh")
	if err != nil {
		t.Fatal(err)
	}
	const head = "id,region,amount\n"
	for name, tt := range map[string]struct {
		table, out, errs string
		exit             int
	}{
		"groups, largest first": {head + "1,a,1.10\n2,b,2.00\n3,a,2.20\n", "region,rows,total,share\na,2,3.30,62.3\nb,1,2.00,37.7\n", "", 0},
		"same totals by name":   {head + "1,b,1\n2,a,1\n", "region,rows,total,share\na,1,1.00,50.0\nb,1,1.00,50.0\n", "", 0},
		"ends of lines":         {"id,region,amount\r\n1,a,-2\r\n\r\n2,a,4", "region,rows,total,share\na,2,2.00,100.0\n", "", 0},
		"broken rows are named": {head + "1,a\n2,a,x\n3,a,4\n", "region,rows,total,share\na,1,4.00,100.0\n", "left out: line 2\nleft out: line 3\n", 0},
		"names are no code":     {head + "1,$(id),1\n2,`id` -v x=1,2\n", "region,rows,total,share\n`id` -v x=1,1,2.00,66.7\n$(id),1,1.00,33.3\n", "", 0},
		"nothing but a header":  {head, "region,rows,total,share\n", "", 0},
		"quotes":                {head + "1,\"a,b\",1\n", "", "line 2 has cells in quotes, which are not read\n", 2},
		"no such column":        {"id,amount\n1,2\n", "", "there is no column region\n", 2},
		"empty":                 {"", "", "there is no header line\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs strings.Builder
			c := exec.CommandContext(t.Context(), sh, "-c", string(code), "groups.sh", "/dev/stdin", "region", "amount")
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader(tt.table), &out, &errs
			_ = c.Run() // the exit code has the result
			if out.String() != tt.out || errs.String() != tt.errs || c.ProcessState.ExitCode() != tt.exit {
				t.Errorf("exit %d\n%s%s\nwant %d\n%s%s", c.ProcessState.ExitCode(), out.String(), errs.String(), tt.exit, tt.out, tt.errs)
			}
		})
	}
	c := exec.CommandContext(t.Context(), sh, "-c", string(code), "groups.sh", filepath.Join(t.TempDir(), "none.csv"), "region", "amount")
	if b, err := c.Output(); err == nil || len(b) > 0 {
		t.Errorf("a file that is not there: %v, %q", err, b)
	}
}
