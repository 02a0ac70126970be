package policy

import "testing"

// A rule that can match nothing has no effect, so it is refused. A rule that
// can match something is not.
func TestAPatternThatCanMatchNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"Read(secrets/)", "Read(../x)", "Read(/workspace/../etc/**)", "Read(~/.ssh/**)", "Read(//etc/passwd)", "edit_file(a//b)", "Glob(./a/./b)",
		"run_skill_script(scripts/*)", "run_skill_script(fill.py)", "run_skill_script(pdf:*)", "run_skill_script(pdf:**)", "WebFetch(example.com)", "WebFetch(https://example.com/)", "WebFetch(domain:*)", "WebFetch(domain:)",
		"Bash(git:push)", "Bash(git:push:*)", "Bash(curl:**)", "Bash(git:* push)", "Bash(curl:*, wget:*)", "Bash({curl,wget}:*)",
		"Read(secrets/**) Bash(curl:*)", "Read(secrets/**),Bash(curl:*)", "Read(a/**)|Read(b/**)", "Bash(curl:*) Read(x)", "WebFetch(domain:a.example) Read(x)",
		`Read("secrets/**")`, "Read('a')", `Bash("curl":*)`, `Bash(git commit -m "x y")`, `Bash(git log --format='%h')`,
		"Read(src/{a,b}/**)", "Read(a/**,b/**)", "Read(a/**, b/**)"} {
		if CheckPattern(s) == nil {
			t.Errorf("%s is taken", s)
		}
		if p := ParsePattern(s); p != (Pattern{}) {
			t.Errorf("%s is %v, which matches nothing", s, p)
		}
	}
	for _, s := range []string{"Read(secrets/**)", "Read(./src/**)", "Read(/etc/**)", "Read(/skills/a/x)", "Read(.env)", "Read(..x)", "Read(/workspace)", "Read(.)", "Read(/workspace/a)", "*(x)",
		"run_skill_script(pdf:scripts/*)", "run_skill_script(*:scripts/**)", "run_skill_script(*/fill.py)", "run_skill_script(home:pdf:scripts/x)", "WebFetch(domain:*.example.com)", "WebFetch(domain: example.com)",
		"Read(app/(group)/page.tsx)", "Read(a(b)", "Read({{cookiecutter.slug}}/**)", "Read(my \"best\" file)", `Read(\{a,b})`, "Read(a, b/**)", `Read(a\) b\(c)`,
		"Bash(curl*)", "Bash(*curl*)", `Bash(find . \( -name x \))`, "Bash(echo :))", "Bash(jq {a,b})", `Bash(echo \"a\")`, "Bash(echo don't)", "Bash(scp x host:**)", "Bash(git stash drop stash@{1})",
		"Bash(git:*)", "Bash(cat ../x)", "Bash(curl http://x.org)", "Bash(pdf:scripts/fill.py)", "Bash(a*:b)", "mcp__a__b(x:y)"} {
		if err := CheckPattern(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
