package policy

import "testing"

// A rule that can match nothing has no effect, so it is refused. A rule that
// can match something is not.
func TestAPatternThatCanMatchNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"Read(secrets/)", "Read(../x)", "Read(/workspace/../etc/**)", "Read(~/.ssh/**)", "Read(//etc/passwd)", "edit_file(a//b)", "Glob(./a/./b)",
		"run_skill_script(scripts/*)", "run_skill_script(fill.py)", "run_skill_script(pdf:*)", "run_skill_script(pdf:**)", "WebFetch(example.com)", "WebFetch(https://example.com/)", "WebFetch(domain:*)", "WebFetch(domain:)",
		"Bash(git:push)", "Bash(git:push:*)"} {
		if CheckPattern(s) == nil {
			t.Errorf("%s is taken", s)
		}
		if p := ParsePattern(s); p != (Pattern{}) {
			t.Errorf("%s is %v, which matches nothing", s, p)
		}
	}
	for _, s := range []string{"Read(secrets/**)", "Read(./src/**)", "Read(/etc/**)", "Read(/skills/a/x)", "Read(.env)", "Read(..x)", "Read(/workspace)", "Read(.)", "Read(/workspace/a)", "*(x)",
		"run_skill_script(pdf:scripts/*)", "run_skill_script(*:scripts/**)", "run_skill_script(*/fill.py)", "run_skill_script(home:pdf:scripts/x)", "WebFetch(domain:*.example.com)", "WebFetch(domain: example.com)",
		"Bash(git:*)", "Bash(cat ../x)", "Bash(curl http://x.org)", "Bash(pdf:scripts/fill.py)", "Bash(a*:b)", "mcp__a__b(x:y)"} {
		if err := CheckPattern(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
