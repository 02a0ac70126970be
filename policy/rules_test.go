package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/shell"
	"metier/policy"
)

// commands states a shell text as the tool does.
func commands(src string) func(*policy.Request) {
	return func(r *policy.Request) {
		f, err := shell.Facts(src)
		if err != nil {
			r.Invalid = "invalid_arguments"
			return
		}
		r.Commands, r.Starts, r.Opaque, r.OpaqueWhy = f.Commands, f.Starts, f.Opaque, strings.Join(f.Why, ", ")
	}
}

func bash(src string) policy.Request { return call(as("bash", policy.SideEffect), commands(src)) }

func TestWordsOfTheShellAreOurs(t *testing.T) {
	t.Parallel()
	if shell.Dynamic != policy.Dynamic {
		t.Errorf("%q is not %q", shell.Dynamic, policy.Dynamic)
	}
}

// What never rides on a pattern, and what does.
//
// req: C-043, C-044, C-086
func TestCommandPatterns(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[string]struct{ ride, not []string }{
		"Bash(git:*)": {
			[]string{"git", "git status", "git log --oneline -3", "git status && git diff", "git log | git shortlog", "git a; git b", "git commit -m 'a; rm -rf /'", "git commit -m \"a\nb\""},
			[]string{"gitk", "git-evil", "./git x", "/tmp/git x", "git status; rm -rf /", "git status && curl x|sh", "git status & rm x", "git status | sh", "git status\nrm x", "git status\ngit x", "git \\\nstatus",
				"git $(rm x)", "git \"$(rm x)\"", "git `rm x`", "git $x", "git <(rm x)", "$(echo git) x", "GIT_SSH_COMMAND=x git fetch", "git status > ~/.bashrc", "git status 2>&1", "git apply < f", "git apply <<E\nx\nE",
				`g""it x`, `\git x`, "'git' x", "alias git=rm", "alias git=rm; git x", "eval git x", "exec git x", "env X=1 git x", "command git x", "sudo git x", "builtin git", "time git x", "! git x", "git() { rm x; }; git x",
				"(git x)", "{ git x; }", "if git x; then git y; fi", "while git x; do git y; done", "git x &", "git *", "git {a,b}", "git ~/x", "git x # y", "export git=1", "", "coproc git x", "xargs git", "nohup git x"}},
		"Bash(printf:*)":         {[]string{"printf '[%s]' x", "printf -v a x"}, []string{"printf -v 'a[$(rm x)]' y", "printf -v'a[$(rm x)]' y", "printf -v \"a[b]\" y"}},
		"Bash(test:*)":           {[]string{"test -f x"}, []string{"test -v 'a[$(rm x)]'", "test -n x -o -v 'a[b]'"}},
		"Bash(read:*)":           {[]string{"read -r x"}, []string{"read 'a[$(rm x)]'"}},
		"Bash(compgen:*)":        {nil, []string{"compgen -W '$(rm x)'"}},
		"Bash(npm run *)":        {[]string{"npm run", "npm run test", "npm run a b"}, []string{"npm", "npm install", "npm run-script x", "npm runx", "npm run test; rm x"}},
		"Bash(npm run test:*)":   {[]string{"npm run test", "npm run test -- -v"}, []string{"npm run", "npm run test:unit", "npm run tests"}},
		"Bash(git status)":       {[]string{"git status", "git  status "}, []string{"git", "git status -s"}},
		"Bash(git * main)":       {[]string{"git push main"}, []string{"git main", "git push main x", "git push origin main"}},
		"Bash(python src/*.py)":  {[]string{"python src/a.py"}, []string{"python src/a/b.py", "python src/../a.py", "python src/a.py x", "python a.py"}},
		"Bash(curl*)":            {[]string{"curl", "curlie"}, []string{"curl x"}},
		"Bash(cat src/**)":       {[]string{"cat src/a", "cat src/a/b"}, []string{"cat src/../x", "cat /src/a", "cat src/a src/b"}},
		"Bash":                   {[]string{"rm -rf /", "git $(rm x)", "a > b", ""}, nil},
		"Bash(*)":                {[]string{"rm -rf /"}, nil},
		"*":                      {[]string{"rm -rf /"}, nil},
		"Bash(:*)":               {nil, []string{"git", ""}},
		"Bash()":                 {nil, []string{"git", ""}},
		"Bash(git:*":             {nil, []string{"git x"}},
		"Bash(git:*) x":          {nil, []string{"git x"}},
		"Read(git)":              {nil, []string{"git"}},
		"run_skill_script":       {nil, []string{"git"}},
		"mcp__github__*":         {nil, []string{"git"}},
		"Bash(" + policy.Dynamic: {nil, []string{"git"}},
	} {
		for _, src := range texts.ride {
			if !policy.ParsePattern(pattern).Matches(bash(src)) {
				t.Errorf("%s does not cover %q", pattern, src)
			}
		}
		for _, src := range texts.not {
			if policy.ParsePattern(pattern).Matches(bash(src)) {
				t.Errorf("%s covers %q", pattern, src)
			}
		}
	}
	if policy.ParsePattern("Bash(git:*)").Matches(call(as("bash", policy.SideEffect))) {
		t.Error("a call that states no command is covered")
	}
	if r := call(as("bash", policy.SideEffect)); true {
		r.Commands = [][]string{{"git", policy.Dynamic}} // a tool that did not report opaque
		if policy.ParsePattern("Bash(git:*)").Matches(r) {
			t.Error("a dynamic word is covered")
		}
	}
}

// req: C-044, C-047, C-086
func TestToolPatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, tool string
		want          bool
	}{
		{"mcp__github__*", "mcp__github__create_issue", true}, {"mcp__github__*", "mcp__gitlab__x", false}, {"mcp__github", "mcp__github__x", true}, {"mcp__github", "mcp__github2__x", false},
		{"mcp__*", "mcp__a__b", true}, {"mcp__github__create_issue", "mcp__github__create_issue", true}, {"mcp__github__create", "mcp__github__create_issue", false}, {"mcp__github__create", "mcp__github__create__issue", false}, {"MCP__github__*", "mcp__github__x", false},
		{"Read", "read_file", true}, {"Edit", "edit_file", true}, {"MultiEdit", "edit_file", true}, {"Write", "edit_file", false}, {"Grep", "search_files", true}, {"Glob", "list_files", true},
		{"Bash", "run_skill_script", true}, {"run_skill_script", "bash", false}, {"WebFetch", "web_fetch", true}, {"read_*", "read_file", true}, {"r*d", "read_file", false}, {"*_file", "read_file", false},
	} {
		if got := policy.ParsePattern(tt.pattern).Matches(call(as(tt.tool, policy.Read))); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.pattern, tt.tool, got)
		}
	}
	fetch := call(as("web_fetch", policy.Read), on("", "docs.example.org"))
	for pattern, want := range map[string]bool{"WebFetch(domain:docs.example.org)": true, "WebFetch(domain:*.example.org)": true, "WebFetch(domain:example.org)": false, "WebFetch(docs.example.org)": false} {
		if got := policy.ParsePattern(pattern).Matches(fetch); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
	both := call(as("fetch_to", policy.Write), on("", "a.org"), paths(policy.PathUse{Path: "/workspace/src/x"}))
	if policy.ParsePattern("fetch_to(src/**)").Matches(both) || policy.ParsePattern("fetch_to(domain:a.org)").Matches(both) {
		t.Error("half of a call is covered")
	}
}

// A script is covered by its own tool, by all of Bash, or by the command line
// that a shell would start it with.
//
// req: C-039
func TestPatternsForScripts(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"run_skill_script": true, "run_skill_script(pdf:scripts/fill.py)": true, "run_skill_script(pdf:scripts/*)": true, "run_skill_script(pdf:**)": false, "run_skill_script(scripts/fill.py)": false,
		"run_skill_script(x:scripts/*)": false, "Bash": true, "Bash(python3:*)": true, "Bash(python3 scripts/fill.py:*)": true, "Bash(scripts/fill.py:*)": true, "Bash(./scripts/fill.py)": true, "Bash(scripts/*.py)": true,
		"Bash(git:*)": false, "Bash(bash:*)": false, "Read": false, "Read(scripts/**)": false, "*": true} {
		if got := policy.ParsePattern(pattern).Matches(script(policy.User)); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"Bash": "", "Bash(git:*)": "", "Read(src/**)": "", "mcp__a__*": "", "*": "", "": "names no tool", "(x)": "names no tool", "Bash(": "not closed", "Bash(git:*) x": "not closed",
		"Bash()": "empty", "Bash( )": "empty", "Bash(:*)": "empty", "a*b": "not a tool name", "a b": "not a tool name", "**": "not a tool name", "a)": "not a tool name", "Read([)": "not a valid glob", "Read([!a])": "[^…]", "Read(a\x00)": "control", "Read(\xff)": "UTF-8", "Read(" + strings.Repeat("a", 600) + ")": "longer",
		"Read(" + strings.Repeat("a/", 40) + ")": "parts", "Bash(" + strings.Repeat("a ", 80) + ")": "words"} {
		err := policy.CheckPattern(s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
		if err != nil && policy.ParsePattern(s) != (policy.Pattern{}) {
			t.Errorf("%q is refused and read", s)
		}
	}
}

// A rule that takes away reads a call the other way round: what may be meant is.
//
// req: C-039
func TestDenyRulesTouchAnyPart(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[string]struct{ hit, miss []string }{
		"Bash(rm:*)": {[]string{"rm x", "ls; rm x", "/bin/rm x", `r""m x`, `\rm x`, "ls $(rm x)", "env A=1 rm x", "sudo rm x", "sh -c 'rm x'", "xargs rm", "eval \"rm x\"", "$x y", "eval $x", "find . -exec rm {} ';'", "alias ls=rm", "if a; then rm b; fi", "f() { rm x; }", "x=1",
			"echo rm x | sh", "bash <<< 'rm x'", "bash -x <<E\nrm x\nE", "bash -o posix < f", "sh -s x < f", "sudo bash < f", "sh /dev/stdin", ". /dev/fd/0", "echo rm x | xargs -I{} sh -c {}",
			"printf -v 'a[$(rm x)]' y", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "read 'a[$(rm x)]'", "let 'a[$(rm x)]=1'", "[[ 'a[$(rm x)]' -eq 1 ]]", "declare 'a[$(rm x)]=1'", "(( $'a[\\x24(rm x)]' ))",
			"setarch -R rm x", "strace rm x", "csh -c 'rm x'", "/lib64/ld-linux-x86-64.so.2 /bin/rm x"},
			[]string{"sh scripts/x.sh", "bash -c ls", "bash -ec ls x", "find . -name bash", "printf '[%s]' x", "printf '$%d' 5", "[ -f x ]", "test -v x", "[[ -f x ]] && ls", "let x=1", "echo $((1+2)) 'x'", "ls rmdir", "ls x", "rmdir x", "git rm x", "echo $x", "env A=1 ls", "sudo ls"}},
		"Bash(git push *)":       {[]string{"git push", "git push -f", "git $x", "git add . && git push", "git -C . push origin", "git --no-pager push", "git -C . -c a.b=c push", "git --git-dir .git push", "/usr/lib/git-core/git-push"}, []string{"git status", "git stash push", "ls"}},
		"Bash(poetry publish:*)": {[]string{"poetry publish", "poetry -C dir publish", "poetry --directory dir publish -r x"}, []string{"poetry build", "poetry run publish"}},
		"Bash(cargo publish:*)":  {[]string{"cargo publish", "cargo +nightly publish", "cargo -q +nightly publish"}, []string{"cargo build publish"}},
		"Bash(/bin/cp:*)":        {[]string{"cp a b", "/bin/cp a b", "/usr/bin/cp a b"}, []string{"ls"}},
		"Bash(git push --all)":   {[]string{"git push --all", "git push $x"}, []string{"git push", "git push --all x"}},
		"Bash(curl*)":            {[]string{"curl", "curl -s x", "curlie x", "/usr/bin/curl x"}, []string{"ls curl", "xcurl x"}},
		"Bash(npm run test*)":    {[]string{"npm run test", "npm run test:unit -- -v"}, []string{"npm run build", "npm run"}},
		`Bash(echo \*)`:          {[]string{"echo '*'"}, []string{"echo '*' x", "echo x"}},
		"Bash(cat secrets/*)":    {[]string{"cat secrets/a", "cat x/../secrets/a", "cat $f"}, []string{"cat a", "cat secrets"}},
	} {
		g := open()
		rule(policy.RuleDeny, pattern)(&g)
		for _, src := range texts.hit {
			if d := policy.Decide(&g, bash(src)); d.Code != policy.CodeRuleDenied {
				t.Errorf("%s lets %q pass: %+v", pattern, src, d)
			}
		}
		for _, src := range texts.miss {
			if d := policy.Decide(&g, bash(src)); d.Code == policy.CodeRuleDenied {
				t.Errorf("%s refuses %q", pattern, src)
			}
		}
	}
	g := open()
	rule(policy.RuleDeny, "Read(secrets/**)")(&g)
	for name, want := range map[string]bool{"/workspace/secrets/a": true, "secrets/a/b": true, "/workspace/src/a": false} {
		d := policy.Decide(&g, call(paths(policy.PathUse{Path: "/workspace/x", Zone: policy.ZoneWorkspace}, policy.PathUse{Path: name, Zone: policy.ZoneWorkspace})))
		if (d.Code == policy.CodeRuleDenied) != want {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for pattern, folders := range map[string]map[string]bool{
		"Grep(env[0-9]/token)":    {"/workspace": true, "/workspace/env1": true, "/workspace/src": false},
		"Grep([s]ecrets/s[u]b/b)": {"/workspace/secrets": true, "/workspace/secrets/sub": true},
		"Grep(secrets/**)":        {"/workspace": true, "/workspace/secrets": true, "/workspace/secrets/in": true, "/workspace/src": false, "/skills/a": false},
		"Grep(a/key)":             {"/workspace/a": true, "/workspace/b": false},
		"LS(**/key)":              {"/workspace/a": true},
		"LS(src/*.go)":            {"/workspace/src": true, "/workspace/docs": false},
	} {
		g := open()
		g.Tools = append(g.Tools, "search_files", "list_files")
		rule(policy.RuleDeny, pattern)(&g)
		tool := map[bool]string{true: "search_files", false: "list_files"}[strings.HasPrefix(pattern, "Grep")]
		for folder, want := range folders {
			d := policy.Decide(&g, call(as(tool, policy.Read), paths(policy.PathUse{Path: folder, Zone: policy.ZoneWorkspace})))
			if diff := cmp.Diff(want, d.Code == policy.CodeRuleDenied); diff != "" {
				t.Errorf("%s, a search of %s (-want +got):\n%s", pattern, folder, diff)
			}
		}
	}
	if d := policy.Decide(&g, call()); d.Code != policy.CodeRuleDenied {
		t.Errorf("a call that states no path passes a rule about paths: %+v", d)
	}
}

func TestAllowRulesRemoveOurQuestionsOnly(t *testing.T) {
	t.Parallel()
	outside := paths(policy.PathUse{Path: "/etc/hosts", Zone: policy.ZoneOutside})
	page, fetch := on("", "docs.example.org"), as("web_fetch", policy.Read)
	for _, tt := range []struct {
		name  string
		rules []policy.Rule
		call  policy.Request
		want  string
	}{
		{"destructive", nil, bash("rm x"), policy.CodeDestructive},
		{"allowed by command", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)"}}, bash("rm x"), "cfc_disabled"},
		{"by two rules", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)"}, {Effect: "allow", Pattern: "Bash(ls:*)"}}, bash("rm x; ls"), "cfc_disabled"},
		{"a part of it", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)"}}, bash("rm x; ls"), policy.CodeDestructive},
		{"the tool's name is no word about it", []policy.Rule{{Effect: "allow", Pattern: "Bash"}}, bash("rm x"), policy.CodeDestructive},
		{"ask comes before allow", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)"}, {Effect: "ask", Pattern: "Bash(rm:*)"}}, bash("rm x"), policy.CodeRuleAsk},
		{"deny comes before ask", []policy.Rule{{Effect: "ask", Pattern: "Bash"}, {Effect: "deny", Pattern: "Bash(rm:*)"}}, bash("rm x"), policy.CodeRuleDenied},
		{"outside", nil, call(outside), policy.CodePathOutside},
		{"outside allowed", []policy.Rule{{Effect: "allow", Pattern: "Read(/etc/hosts)"}}, call(outside), "cfc_disabled"},
		{"outside, the tool alone", []policy.Rule{{Effect: "allow", Pattern: "Read"}}, call(outside), policy.CodePathOutside},
		{"a host", nil, call(fetch, page), policy.CodeNetworkAsk},
		{"a host allowed", []policy.Rule{{Effect: "allow", Pattern: "WebFetch(domain:*.example.org)"}}, call(fetch, page), "cfc_disabled"},
		{"for the skill", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a"}}, call(as("bash", policy.SideEffect), commands("rm x"), active(nil)), "cfc_disabled"},
		{"for a skill of a workspace", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a"}}, call(as("bash", policy.SideEffect), commands("rm x"), activeOf(policy.Project)), policy.CodeDestructive},
		{"for a skill of a third party", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a*"}}, call(as("bash", policy.SideEffect), commands("rm x"), activeOf(policy.ThirdParty)), policy.CodeDestructive},
		{"for a skill of a third party by its ID", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "s:a"}}, call(as("bash", policy.SideEffect), commands("rm x"), activeOf(policy.ThirdParty)), "cfc_disabled"},
		{"deny for a skill of a third party", []policy.Rule{{Effect: "deny", Pattern: "Bash", Skill: "a"}}, call(as("bash", policy.SideEffect), commands("ls"), activeOf(policy.ThirdParty)), policy.CodeRuleDenied},
		{"for a skill that was only read", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a"}}, call(as("bash", policy.SideEffect), commands("rm x"), active(nil), told("b")), policy.CodeDestructive},
		{"outside, for a skill that was only read", []policy.Rule{{Effect: "allow", Pattern: "Read(/etc/hosts)", Skill: "a"}}, call(outside, active(nil), told("b")), policy.CodePathOutside},
		{"outside, for the skill", []policy.Rule{{Effect: "allow", Pattern: "Read(/etc/hosts)", Skill: "a"}}, call(outside, active(nil)), "cfc_disabled"},
		{"a host, for a skill that was only read", []policy.Rule{{Effect: "allow", Pattern: "WebFetch(domain:docs.example.org)", Skill: "a"}}, call(fetch, page, active(nil), told("b")), policy.CodeNetworkAsk},
		{"a host, for the skill", []policy.Rule{{Effect: "allow", Pattern: "WebFetch(domain:docs.example.org)", Skill: "a"}}, call(fetch, page, active(nil)), "cfc_disabled"},
		{"deny for a skill that was only read", []policy.Rule{{Effect: "deny", Pattern: "Bash", Skill: "b"}}, call(as("bash", policy.SideEffect), commands("ls"), active(nil), told("b")), policy.CodeRuleDenied},
		{"for all skills active", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a"}}, call(as("bash", policy.SideEffect), commands("rm x"), active(nil, nil)), policy.CodeDestructive},
		{"no skill active", []policy.Rule{{Effect: "allow", Pattern: "Bash(rm:*)", Skill: "a"}}, bash("rm x"), policy.CodeDestructive},
		{"deny for any of them", []policy.Rule{{Effect: "deny", Pattern: "Bash", Skill: "b"}}, call(as("bash", policy.SideEffect), commands("ls"), active(nil, nil)), policy.CodeRuleDenied},
		{"deny for another", []policy.Rule{{Effect: "deny", Pattern: "Bash", Skill: "c"}}, call(as("bash", policy.SideEffect), commands("ls"), active(nil, nil)), "cfc_disabled"},
		{"never the script's approval", []policy.Rule{{Effect: "allow", Pattern: "run_skill_script(pdf:scripts/*)"}, {Effect: "allow", Pattern: "Bash(python3:*)"}}, script(policy.User), policy.CodeScriptApproval},
	} {
		g := running(func(g *policy.Grants) { g.Tools, g.Rules = append(g.Tools, "web_fetch"), tt.rules })
		if d := policy.Decide(g, tt.call); d.Code != tt.want {
			t.Errorf("%s: %+v, want %s", tt.name, d, tt.want)
		}
	}
	g := running(func(g *policy.Grants) { g.Tools = nil; rule(policy.RuleAllow, "*")(g) })
	if d := policy.Decide(g, bash("ls")); d.Code != policy.CodeToolNotAllowed {
		t.Errorf("an allow rule grants a tool: %+v", d)
	}
}

// req: C-041
func TestDestructiveCommandsAsk(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{"rm x": true, "/bin/rm x": true, "ls; shred x": true, "sudo rm x": true, "sh -c 'rm x'": true, "bash -c \"a && rm x\"": true, "find . -delete": true, "find . -exec rm {} ';'": true, "xargs rm": true,
		"git push --force": true, "git push origin +main": true, "git reset --hard": true, "git clean -fd": true, "mkfs.ext4 x": true, "$x y": true, "eval $x": true, "sh -c $x": true, "dd of=x": true, "echo x | sh": true, "bash <<< x": true, "printf -v 'a[$(x)]' y": true, "[ -f x ]": false, "bash -c ls": false, "bash x.sh y": false, "if a; then rm x; fi": true,
		"ls": false, "git status": false, "git push": false, "echo $x": false, "grep rm x": false, "find . -name x": false, "env A=1 ls": false, "sh scripts/x.sh": false, "docker run x": false, "docker rm x": true, "echo 'rm x'": false, "git rm x": true, "rsync --delete a b": true, "kubectl delete pod x": true, "terraform destroy": true, "npm publish": true, "truncate -s 0 x": true,
		"git push -fu origin main": true, "git push --force-with-lease=main": true, "git push --forc": true, "git push origin :main": true, "git push -d origin main": true, "git reset --har": true, "git branch -df x": true, "rsync --delete-after a b": true, "rsync --del a b": true, "aws s3 sync --delete a b": true,
		"git push -u origin main": false, "git log --format=%h -S f": false, "git diff --no-color -- f": false, "git commit -am f": false, "git branch -d x": false, "git fetch --depth=1": false, "rsync -a a b": false} {
		g := open()
		if d := policy.Decide(&g, bash(src)); (d.Code == policy.CodeDestructive) != want || want != strings.Contains(strings.Join(d.Risk, " "), "destructive") {
			t.Errorf("%q: %+v", src, d)
		}
	}
	g := open()
	if d := policy.Decide(&g, call(as("bash", policy.SideEffect), func(r *policy.Request) { r.Destructive = []string{"the database"} })); d.Code != policy.CodeDestructive || !strings.Contains(d.Question.Text, "the database") {
		t.Errorf("a tool that says what it destroys: %+v", d)
	}
	ask := func(args string) *policy.Question {
		return policy.Decide(&g, call(as("bash", policy.SideEffect), commands("rm x"), func(r *policy.Request) { r.Args = args })).Question
	}
	if a, b := ask("sha256:a"), ask("sha256:b"); a.Binds == b.Binds || a.Binds != ask("sha256:a").Binds || !strings.Contains(a.Text, "rm x") {
		t.Errorf("%+v %+v", a, b)
	}
}

// A user sees everything that an approval covers, and nothing else.
func TestQuestionsSayWhatWouldHappen(t *testing.T) {
	t.Parallel()
	g := open()
	rule(policy.RuleAsk, "Bash")(&g)
	text := func(change ...func(*policy.Request)) string {
		return policy.Decide(&g, call(append([]func(*policy.Request){as("bash", policy.SideEffect)}, change...)...)).Question.Text
	}
	for src, want := range map[string]string{
		"git commit -m 'a; rm x'":     `git commit -m "a; rm x"?`,
		"GIT_SSH_COMMAND=x git a":     "git a; and more that cannot be determined: an assignment?",
		"git a > ~/.bashrc":           "git a; and more that cannot be determined: a redirect?",
		"echo $x 'a\tb' $(rm \u202e)": "rm \ufffd",
		"ls '…'":                      `ls "…"?`,
	} {
		if got := text(commands(src)); !strings.Contains(got, want) {
			t.Errorf("%q asks %q, want %q", src, got, want)
		}
	}
	long := strings.Repeat("true; ", 2000) + "rm x"
	if got := text(commands("ls"), func(r *policy.Request) { r.Summary = long }); !strings.Contains(got, "bytes more") || len(got) > 5000 {
		t.Errorf("a cut is not said: %d bytes", len(got))
	}
	if got := text(commands("ls"), func(r *policy.Request) { r.Summary = "A=1 ls \x1b[2J" }); !strings.Contains(got, "A=1 ls \ufffd[2J") {
		t.Error(got)
	}
}

func TestSkillRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rules  string // effect:pattern …
		denied string
		want   policy.RuleEffect
	}{
		{"", "", policy.RuleAllow}, {"deny:deploy", "", policy.RuleDeny}, {"deny:DEPLOY", "", policy.RuleDeny}, {"ask:dep*", "", policy.RuleAsk}, {"deny:*", "", policy.RuleDeny}, {"deny:other", "", policy.RuleAllow},
		{"deny:*oy", "", policy.RuleDeny}, {"deny:d*p*y", "", policy.RuleDeny}, {"deny:d*x*y", "", policy.RuleAllow}, {"deny:deploy*deploy", "", policy.RuleAllow}, {"deny:src:*", "", policy.RuleDeny}, {"deny:src:ops/deploy", "", policy.RuleDeny}, {"deny:SRC:*", "", policy.RuleAllow},
		{"deny:* allow:deploy", "", policy.RuleAllow}, {"allow:deploy deny:*", "", policy.RuleAllow}, {"deny:* allow:dep* ask:deplo*", "", policy.RuleAsk}, {"allow:deploy ask:deploy", "", policy.RuleAsk}, {"ask:deploy deny:deploy allow:deploy", "", policy.RuleDeny},
		{"allow:deploy", "deploy", policy.RuleDeny}, {"allow:deploy", "src:ops/deploy", policy.RuleDeny}, {"allow:d*y deny:*loy", "", policy.RuleDeny},
	} {
		g := policy.Grants{}
		for _, s := range strings.Fields(tt.rules) {
			e, p, _ := strings.Cut(s, ":")
			g.Skills = append(g.Skills, policy.SkillRule{Effect: policy.RuleEffect(e), Skill: p})
		}
		if tt.denied != "" {
			g.Denied = []string{tt.denied}
		}
		if got, rule := g.Skill("src:ops/deploy", "Deploy"); got != tt.want || (rule == "") != (tt.rules == "" || got == policy.RuleAllow && !strings.Contains(tt.rules, "allow")) {
			t.Errorf("%q denied %q: %s by %q, want %s", tt.rules, tt.denied, got, rule, tt.want)
		}
	}
}

// No file can allow what another one denies, however specific its rule is.
func TestSkill_TakesTheStrictestSet(t *testing.T) {
	t.Parallel()
	rule := func(e policy.RuleEffect, skill string) policy.SkillRule {
		return policy.SkillRule{Effect: e, Skill: skill}
	}
	for _, tt := range []struct {
		sets [][]policy.SkillRule
		want policy.RuleEffect
	}{
		{[][]policy.SkillRule{{rule(policy.RuleDeny, "internal-*")}, {rule(policy.RuleAllow, "internal-docs")}}, policy.RuleDeny},
		{[][]policy.SkillRule{{rule(policy.RuleAllow, "internal-docs")}, {rule(policy.RuleAsk, "*")}}, policy.RuleAsk},
		{[][]policy.SkillRule{{rule(policy.RuleDeny, "internal-*"), rule(policy.RuleAllow, "internal-docs")}, {rule(policy.RuleAllow, "*")}}, policy.RuleAllow},
		{[][]policy.SkillRule{{rule(policy.RuleDeny, "internal-*"), rule(policy.RuleAllow, "internal-docs")}, {rule(policy.RuleDeny, "other")}}, policy.RuleAllow},
	} {
		var g policy.Grants
		for _, set := range tt.sets {
			g.Skills = policy.AddSkills(g.Skills, set)
		}
		got, _ := g.Skill("src:internal-docs", "internal-docs")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.sets, diff)
		}
	}
	if got, _ := (&policy.Grants{Skills: []policy.SkillRule{{Effect: policy.RuleAllow, Skill: "x", Set: 1 << 40}}}).Skill("src:x", "x"); got != policy.RuleDeny {
		t.Errorf("a set with an impossible number: %s", got)
	}
}

// A list of the only allowed skills takes an ID as an ID: a skill that names
// itself like the ID of another is not meant.
func TestTheOnlySkillsAreMeantByNameOrByID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		only     string
		id, name string
		passes   bool
	}{
		{"src:a/deploy", "src:a/deploy", "deploy", true}, {"src:a/deploy", "evil:x", "src:a/deploy", false}, {"src:a/deploy", "SRC:a/deploy", "deploy", false},
		{"src:*", "evil:x", "src:a/deploy", false}, {"*:a/deploy", "src:a/deploy", "x", true}, {"*:a/deploy", "evil:x", "src:a/deploy", false}, {"mcp:desk:*", "mcp:desk:a/b", "mcp:desk:b", true}, {"mcp:desk:b", "mcp:desk:a/b", "mcp:desk:b", true},
		{"deploy", "evil:x", "Deploy", true}, {"dep*", "evil:x", "deploy", true}, {"src:*", "src:a/b", "b", true}, {"src:*", "evil:x", "b", false}, {"", "evil:x", "b", false},
	} {
		g := policy.Grants{Only: [][]string{{"*"}, strings.Fields(tt.only)}}
		if got, _ := g.Skill(tt.id, tt.name); (got == policy.RuleAllow) != tt.passes {
			t.Errorf("only %q: the skill %s (%s): %s", tt.only, tt.name, tt.id, got)
		}
	}
}

// What the operator allows by an ID, or for a whole source, does not apply to a
// skill that names itself so. What the operator denies by it does.
func TestANameThatLooksLikeAnIDIsAllowedNothing(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]policy.RuleEffect{
		"deny=* allow=org:*": policy.RuleDeny, "deny=* allow=org:a/deploy": policy.RuleDeny, "deny=* ask=org:*": policy.RuleDeny, "ask=* allow=org:*": policy.RuleAsk,
		"deny=org:*": policy.RuleDeny, "allow=* deny=org:a/deploy": policy.RuleDeny, "ask=org:*": policy.RuleAsk, "deny=* allow=evil:*": policy.RuleAllow, "deny=* allow=evil:* ask=org:*": policy.RuleAsk,
	} {
		var g policy.Grants
		for _, s := range strings.Fields(rules) {
			e, p, _ := strings.Cut(s, "=")
			g.Skills = append(g.Skills, policy.SkillRule{Effect: policy.RuleEffect(e), Skill: p})
		}
		if got, rule := g.Skill("evil:x", "org:a/deploy"); got != want {
			t.Errorf("%s: %s by %q, want %s", rules, got, rule, want)
		}
	}
	g := open()
	g.Rules = []policy.Rule{{Effect: policy.RuleAllow, Pattern: "Bash(rm:*)", Skill: "org:*"}}
	for id, asked := range map[string]bool{"org:a/deploy": false, "evil:x": true} {
		r := bash("rm -rf x")
		r.Active = []policy.Subject{{ID: id, Name: "org:a/deploy"}}
		if d := policy.Decide(&g, r); (d.Code == policy.CodeDestructive) != asked {
			t.Errorf("%s: %+v", id, d)
		}
	}
}

// FuzzPattern: every reader of a pattern reads it the same way, it costs
// little, and if it covers a text of commands, its words begin each of them.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"Bash(git:*)", "Bash(npm run *)", "Bash(git * main)", "Read(src/**)", "mcp__a__*", "*", "Bash", "Bash(", "Bash()", "Bash(:*)", "Read(**/**/**/x)", "Bash([a-z]*:*)", "run_skill_script(pdf:scripts/*)", "WebFetch(domain:*.x.org)", "Bash(git:*)x", "Bash(\\*:*)"} {
		f.Add(s, "git status")
		f.Add(s, "git a && rm b")
	}
	f.Fuzz(func(t *testing.T, pattern, src string) {
		p := policy.ParsePattern(pattern)
		if (policy.CheckPattern(pattern) == nil) != (p != policy.Pattern{}) {
			t.Fatalf("%q: %+v, %v", pattern, p, policy.CheckPattern(pattern))
		}
		r := bash(src)
		if !p.Matches(r) {
			return
		}
		g := open()
		rule(policy.RuleDeny, pattern)(&g)
		if d := policy.Decide(&g, r); r.Invalid == "" && d.Code != policy.CodeRuleDenied {
			t.Fatalf("%q covers %q and does not deny it: %+v", pattern, src, d)
		}
		if p.Arg == "" || p.Arg == "*" {
			return
		}
		first := strings.TrimSuffix(strings.Fields(p.Arg)[0], ":*")
		for _, c := range r.Commands {
			if r.Opaque || !strings.ContainsAny(first, `*?[\`) && c[0] != first {
				t.Fatalf("%q covers %q", pattern, src)
			}
		}
	})
}

// Names of any length are compared with a rule, whatever its wildcards.
func TestRules_MatchLongPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, path string }{
		{"Write(**/deny-me)", strings.Repeat("x/", 3000) + "deny-me"},
		{"Write(**/a/**/a/**/b/**/deny-too)", strings.Repeat("a/", 3000) + "b/deny-too"},
		{"Write(a/**)", "a/" + strings.Repeat("x/", 3000)},
	} {
		if !policy.ParsePattern(c.pattern).Matches(policy.Request{Tool: "write_file", Paths: []policy.PathUse{{Path: "/workspace/" + c.path}}}) {
			t.Errorf("%s does not match a path of %d bytes", c.pattern, len(c.path))
		}
	}
}

// A star before :scripts/ covers skills whose names have slashes, and ** inside a word matches
// slashes. Rules that allow stay exact.
func TestRulesThatRestrict_MatchAcrossSlashes(t *testing.T) {
	t.Parallel()
	entry := func(name string) policy.Request {
		s := policy.Subject{ID: "h:" + name, Name: name, Tree: "sha256:aa", Tier: policy.ThirdParty}
		return policy.Request{Tool: "run_skill_script", Effect: policy.SideEffect, Actor: policy.ByModel, Skill: &s, Active: []policy.Subject{s}, Entry: name + ":scripts/sub/deploy.sh"}
	}
	command := func(words ...string) policy.Request {
		return policy.Request{Tool: "bash", Effect: policy.SideEffect, Actor: policy.ByModel, Commands: [][]string{words}, Starts: [][]string{words}}
	}
	read := policy.Request{Tool: "read_file", Effect: policy.Read, Actor: policy.ByModel, Paths: []policy.PathUse{{Path: "/workspace/secrets/a", Zone: policy.ZoneWorkspace}}}
	for _, c := range []struct {
		pattern string
		r       policy.Request
		denied  bool
	}{
		{"run_skill_script(*:scripts/**)", entry("b/x"), true},
		{"run_skill_script(*:scripts/sub/deploy.sh)", entry("skills/grp/sk"), true},
		{"run_skill_script(*:scripts/s**)", entry("b/x"), true},
		{"run_skill_script(b*:scripts/**)", entry("B/x"), true},
		{"run_skill_script(*:scripts/other.sh)", entry("b/x"), false},
		{"run_skill_script(x:scripts/**)", entry("b/x"), false},
		{"Bash(cat secrets**)", command("cat", "secrets/a"), true},
		{"Bash(cat **secrets**)", command("cat", "/workspace/secrets/a"), true},
		{"Bash(curl **evil.example**)", command("curl", "https://evil.example/x"), true},
		{"Bash(cat secrets**)", command("cat", "other/a"), false},
		{"Bash(cat secrets*)", command("cat", "secrets/a"), false},
		{"Read(sec**)", read, true},
		{"Read(sec*)", read, false},
	} {
		g := &policy.Grants{Mode: policy.Observe, Tools: []string{c.r.Tool}, ScriptRule: policy.ScriptsBundled, Approval: policy.ApprovalNever, Rules: []policy.Rule{{Effect: policy.RuleDeny, Pattern: c.pattern}}}
		if d := policy.Decide(g, c.r); (d.Code == policy.CodeRuleDenied) != c.denied {
			t.Errorf("deny %s: %+v", c.pattern, d)
		}
		if c.r.Entry == "" && policy.ParsePattern(c.pattern).Matches(c.r) {
			t.Errorf("allow %s covers the call", c.pattern)
		}
	}
}
