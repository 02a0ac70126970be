package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/policy"
)

// written writes a policy file and reads it.
func written(t *testing.T, text string) (Policy, error) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadPolicy(p)
}

const someTree = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The example of the page is a policy file, and has the rules that the page
// describes.
func TestPolicyPageHoldsAPolicyFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "POLICY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := bytes.Cut(page, []byte("```yaml\n"))
	example, _, closed := bytes.Cut(rest, []byte("```\n"))
	if !found || !closed {
		t.Fatal("docs/POLICY.md has no example")
	}
	f, err := written(t, string(example))
	if err != nil {
		t.Fatal(err)
	}
	want := Policy{
		Tools: []string{"read_file", "bash", "run_skill_script", "mcp__github__create_issue"}, Scripts: []string{"pdf:scripts/fill.py"}, Hosts: []string{"api.example.com", "*.example.org"},
		Rules: []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash(curl:*)"}, {Effect: policy.RuleDeny, Pattern: "Read(secrets/**)"}, {Effect: policy.RuleAsk, Pattern: "Bash(git push *)"},
			{Effect: policy.RuleAsk, Pattern: "mcp__github__*"}, {Effect: policy.RuleAllow, Pattern: "Bash(rm build/*)", Skill: "build-*"}},
		Skills:    []policy.SkillRule{{Effect: policy.RuleDeny, Skill: "internal-*"}, {Effect: policy.RuleAllow, Skill: "internal-docs"}, {Effect: policy.RuleAsk, Skill: "deploy-*"}},
		Approvals: []policy.ApprovedScript{{Entry: "pdf:scripts/fill.py", Tree: someTree, Level: "L2"}}, BindArgs: true,
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestPolicyFileRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "1:1: a policy file is a map"},
		{"comments only", "# rules to come\n", "a policy file is a map"},
		{"null", "~\n", "a policy file is a map"},
		{"a list", "- deny: Bash\n", "1:1: a policy file is a map"},
		{"no version", "rules:\n  - deny: Bash\n", "the version is missing"},
		{"another version", "version: 2\n", "1:10: this release supports only version 1"},
		{"a version as a list", "version: [1]\n", "this release supports only version 1"},
		{"unknown key", "version: 1\nrule:\n  - deny: Bash\n", `2:1: unknown key "rule" in a policy file`},
		{"another case", "version: 1\nRules: []\n", `unknown key "Rules"`},
		{"a setting", "version: 1\nset: {scripts: tiered}\n", `unknown key "set"`},
		{"no rules", "version: 1\nrules:\n", "2:7: rules is a list"},
		{"one rule", "version: 1\nrules: {deny: Bash}\n", "rules is a list"},
		{"a text for a rule", "version: 1\nrules:\n  - Bash\n", "3:5: a rule is deny, ask or allow"},
		{"an empty rule", "version: 1\nrules:\n  - {}\n", "exactly one of deny, ask and allow"},
		{"a skill alone", "version: 1\nrules:\n  - skill: a\n", "exactly one of deny, ask and allow"},
		{"two effects", "version: 1\nrules:\n  - deny: Bash\n    allow: Read\n", "3:5: a rule has exactly one"},
		{"unknown effect", "version: 1\nrules:\n  - forbid: Bash\n", `3:5: unknown key "forbid" in a rule`},
		{"nothing denied", "version: 1\nrules:\n  - deny:\n", "deny is a text"},
		{"a list denied", "version: 1\nrules:\n  - deny: [Bash, Read]\n", "3:11: deny is a text"},
		{"an open bracket", "version: 1\nrules:\n  - deny: Bash(rm\n", "3:5: rule \"deny: Bash(rm\": its parenthesis is not closed"},
		{"empty brackets", "version: 1\nrules:\n  - allow: Bash()\n", "its parentheses are empty"},
		{"a bad glob", "version: 1\nrules:\n  - deny: 'Read([)'\n", "is not a valid glob"},
		{"a tool there is not", "version: 1\nrules:\n  - deny: Bahs(curl:*)\n", `3:5: rule "deny: Bahs(curl:*)": there is no tool "Bahs"; did you mean Bash?`},
		{"a profile's name in a grant", "version: 1\ntools: [run_script]\n", "2:9: policy files use canonical names: write run_skill_script instead of run_script, its name in the profile agent-harness"},
		{"a profile's name in a rule", "version: 1\nrules:\n  - deny: skills.read\n", "policy files use canonical names: write load_skill instead of skills.read, its name in the profile agent-runtime"},
		{"a profile's name with an argument", "version: 1\nrules:\n  - ask: run_script(report:scripts/*)\n", "write run_skill_script instead of run_script"},
		{"a tool in other letters", "version: 1\nrules:\n  - deny: Run_Skill_Script\n", `there is no tool "Run_Skill_Script"`},
		{"a tool with a letter of another alphabet", "version: 1\nrules:\n  - deny: B\u0430sh\n", "there is no tool"},
		{"tools there are not", "version: 1\nrules:\n  - ask: reed_*\n", "there is no tool"},
		{"a path no path has", "version: 1\nrules:\n  - deny: Read(secrets/)\n", "for everything in the folder, write secrets/**"},
		{"a rule for no skill", "version: 1\nrules:\n  - deny: Bash\n    skill: ''\n", "skill is a text"},
		{"unknown effect of skills", "version: 1\nskills:\n  - hide: x\n", `unknown key "hide"`},
		{"no skill", "version: 1\nskills:\n  - deny: ' '\n", "it names no skill"},
		{"a tool pattern", "version: 1\ntools: ['mcp__*']\n", "a grant names one tool"},
		{"a tool as a map", "version: 1\ntools: [{bash: true}]\n", "an item of tools is a text"},
		{"a null tool", "version: 1\ntools: [null]\n", "an item of tools is a text"},
		{"a script glob", "version: 1\nscripts: ['pdf:scripts/*']\n", "is not a script"},
		{"a script elsewhere", "version: 1\nscripts: ['pdf:../a']\n", "is not a script"},
		{"a host with a port", "version: 1\nhosts: ['a.com:443']\n", "is not a host name"},
		{"any host", "version: 1\nhosts: ['*']\n", "a star matches"},
		{"an approval without a tree", "version: 1\napprovals:\n  - script: pdf:scripts/a.py\n", "3:5: the approval has no tree"},
		{"an approval without a script", "version: 1\napprovals:\n  - tree: " + someTree + "\n", "the approval has no script"},
		{"a short tree", "version: 1\napprovals:\n  - {script: 'pdf:scripts/a.py', tree: 'sha256:ab'}\n", "is not the digest of a tree"},
		{"any tree", "version: 1\napprovals:\n  - {script: 'pdf:scripts/a.py', tree: '*'}\n", "is not the digest of a tree"},
		{"an unknown level", "version: 1\napprovals:\n  - {script: 'pdf:scripts/a.py', tree: '" + someTree + "', level: high}\n", "is not an isolation level"},
		{"an unknown key of an approval", "version: 1\napprovals:\n  - {script: 'pdf:scripts/a.py', tree: '" + someTree + "', network: any}\n", `unknown key "network" in an approval`},
		{"no bool", "version: 1\napprovals_bind_arguments: yes\n", "is true or false"},
		{"a key twice", "version: 1\nrules: []\nrules: []\n", "already set"},
		{"an alias", "version: 1\nrules: *a\n", "alias"},
		{"no YAML", "version: 1\nrules: [\n", "3:1: "},
		{"tabs", "version: 1\nrules:\n\t- deny: Bash\n", "3:"},
		{"too many", "version: 1\nhosts: [" + strings.Repeat("a.com, ", policyItems) + "b.com]\n", "at most 1000 are read"},
		{"too large", "version: 1\n#" + strings.Repeat("x", maxFile), "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := written(t, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "policy.yaml") {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			e, is := errors.AsType[*metier.Error](err)
			if !is || e.Kind != metier.Invalid || e.Hint == "" || !cmp.Equal(f, Policy{}) {
				t.Errorf("%+v %+v", e, f)
			}
		})
	}
	if _, err := ReadPolicy(filepath.Join(t.TempDir(), "absent.yaml")); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("a policy file that is not there means no rules: %v", err)
	}
	_, err := written(t, "version: 1\nhosts: [a b]\nrules:\n  - deny: 'Bash('\n  - deny: Bash\nother: 1\n")
	for _, line := range []string{"2:9:", "4:5:", "6:1:"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("not all faults are named: %v", err)
		}
	}
}

func TestPolicyFileAddsToGrants(t *testing.T) {
	t.Parallel()
	f, err := written(t, "version: 1\ntools: [bash, read_file]\nscripts: ['a:scripts/x']\nhosts: [a.com]\nrules:\n  - allow: Bash(ls:*)\nskills:\n  - allow: '*'\napprovals:\n  - {script: 'a:scripts/x', tree: '"+someTree+"', level: L3}\n")
	if err != nil {
		t.Fatal(err)
	}
	tools := append(make([]string, 0, 8), "read_file")
	g := policy.Grants{Mode: policy.Observe, Tools: tools, Denied: []string{"bad"}, Hosts: []string{"b.com"}, BindArgs: true,
		Rules: []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash(rm:*)"}}, Skills: []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "x"}}}
	f.Grant(&g)
	want := policy.Grants{Mode: policy.Observe, Tools: []string{"read_file", "bash"}, Denied: []string{"bad"}, Scripts: []string{"a:scripts/x"}, Hosts: []string{"b.com", "a.com"}, BindArgs: true,
		Rules:    []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash(rm:*)"}, {Effect: policy.RuleAllow, Pattern: "Bash(ls:*)"}},
		Skills:   []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "x"}, {Effect: policy.RuleAllow, Skill: "*", Set: 1}},
		Approved: []policy.ApprovedScript{{Entry: "a:scripts/x", Tree: someTree, Level: "L3"}}}
	if d := cmp.Diff(want, g); d != "" {
		t.Error(d)
	}
	if full := tools[:cap(tools)]; full[1] != "" {
		t.Error("the caller's list was written to")
	}
}
