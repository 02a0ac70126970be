package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/run"
)

const (
	userOfShop     = "ada-of-the-shop-4711"
	passwordOfShop = "correct-horse-battery-9"
)

// peek reports which of its skill's secrets a script has, and prints one.
const peek = "#!/usr/bin/env bash\necho \"${LOGIN_USER+user} ${LOGIN_PASSWORD+password}\" >> peeked.txt\necho \"it is ${LOGIN_PASSWORD-unset}.\"\n"

// newSignIn is a run whose subagent signs in, and then looks for the secrets
// through another script of the same skill. All grants are in the configuration.
func newSignIn(t *testing.T, s *shop, grants string) (k *kin, results *[]string) {
	t.Helper()
	files := map[string]string{
		"conf/config.yaml": fmt.Sprintf("browser:\n  path: [%s]\n  endpoint: %s\n  origin: %s\n  until: 10m\n%s", pagehand(t), testenv.Chromium(t), s.URL, grants) +
			"secrets:\n  - {skill: project:agent-browser, name: LOGIN_USER, file: user}\n  - {skill: project:agent-browser, name: LOGIN_PASSWORD, file: password}\nsubagents: {allow: [browser]}\n",
		"conf/subagents/browser.yaml": "name: browser\ndescription: Works with a page, and signs in.\nskills: [agent-browser]\ntools: [run_skill_script]\ntarget: host\nbrowser: true\n" +
			"scripts: [project:agent-browser:scripts/authenticated-session.sh, project:agent-browser:scripts/peek.sh]\n",
		"skills/agent-browser/scripts/peek.sh": peek,
	}
	for p, text := range ownBrowserSkill(t) {
		files["skills/"+p] = text
	}
	k, results = newKin(t, files), new([]string)
	k.main = func(ctx context.Context, args, env []string, std cli.IO) int {
		return cli.MainNoWait(ctx, args, append(env, "METIER_CONFIG="+filepath.Join(k.dir, "conf", "config.yaml")), std)
	}
	for name, value := range map[string]string{"user": userOfShop, "password": passwordOfShop} {
		must(t, os.WriteFile(filepath.Join(k.dir, "conf", name), []byte(value+"\n"), 0o600))
	}
	k.parent = once(delegate(`{"profile":"browser","task":"Sign in."}`))
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		switch turn {
		case 0:
			return turnOf(modeltest.Call{Tool: "run_skill_script", Args: call("authenticated-session.sh", s.URL+"/", "name", "pass")})
		case 1:
			*results = append(*results, r.LastResults()...)
			return turnOf(modeltest.Call{Tool: "run_skill_script", Args: call("peek.sh", []string{}...)})
		}
		*results = append(*results, r.LastResults()...)
		return modeltest.Turn{Text: "Tried. " + strings.Join(*results, " ")}
	}
	k.run("--skills-root", "skills", "--allow-skill-script", "project:agent-browser:scripts/authenticated-session.sh", "--allow-skill-script", "project:agent-browser:scripts/peek.sh")
	return k, results
}

// A script that signs in runs if the configuration grants it for the lease's exact origin. Only
// scripts with a grant receive the secrets, and no record contains them.
//
// req
func TestSubagentSignsInWhereTheConfigurationGrantsIt(t *testing.T) {
	t.Parallel()
	other := newShop(t)
	grant := func(script, origin string) string {
		return "    - {script: 'project:agent-browser:scripts/" + script + "', origin: '" + origin + "'}\n"
	}
	const login, here = "authenticated-session.sh", "https://here" // replaced by the shop of the case
	for name, c := range map[string]struct {
		grants string
		signs  bool
		told   string // of the first call
		peeked string
	}{
		"no grant":           {"", false, "has no grant for " + here, " \n"},
		"a grant":            {"  grants:\n" + grant(login, here), true, "Exit code 0.", " \n"},
		"another origin":     {"  grants:\n" + grant(login, other.URL), false, "bound to " + other.URL, " \n"},
		"both origins":       {"  grants:\n" + grant(login, other.URL) + grant(login, here), true, "Exit code 0.", " \n"},
		"another script too": {"  grants:\n" + grant(login, here) + grant("peek.sh", here), true, "Exit code 0.", "user password\n"},
		"another skill":      {"  grants:\n    - {script: 'browser:scripts/" + login + "', origin: '" + here + "'}\n", false, "has no grant for " + here, " \n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			mine := func(text string) string { return strings.ReplaceAll(text, here, s.URL) }
			k, results := newSignIn(t, s, mine(c.grants))
			var want []string
			if c.signs {
				want = []string{"name=" + userOfShop + "&pass=" + passwordOfShop}
			}
			if got := s.got(); !slices.Equal(got, want) {
				t.Errorf("the server received %q", got)
			}
			if len(*results) != 2 || !strings.Contains((*results)[0], mine(c.told)) || strings.HasPrefix((*results)[0], "Error: permission_denied: ") == c.signs {
				t.Errorf("the subagent was told %q", *results)
			}
			b, _ := os.ReadFile(filepath.Join(k.dir, "peeked.txt"))
			if string(b) != c.peeked {
				t.Errorf("another script of the skill had %q\n%q", b, *results)
			}
			ran := readArtifact[run.Scripts](t, k.childFolder("t1.c0"), run.FileScripts).Executions
			if len(ran) != 2 || (ran[0].Error == nil) != c.signs || ran[1].Status != "executed" || *ran[1].ExecutionTarget != "host" {
				t.Errorf("the record says %s", jsonText(t, ran))
			}
			for _, secret := range []string{userOfShop, passwordOfShop} {
				if at := holding(t, k.folder(), secret, true); len(at) > 0 || strings.Contains(k.out.String()+k.err.String(), secret) {
					t.Errorf("%s is in %q", secret, at)
				}
				for _, r := range k.server.Requests() {
					if strings.Contains(string(r.Body), secret) {
						t.Errorf("a model was told %s", secret)
					}
				}
			}
		})
	}
	t.Cleanup(func() {
		if got := other.got(); len(got) > 0 {
			t.Errorf("sent elsewhere: %q", got)
		}
	})
}

// Only the operator can define grants. Grants of a workspace, without a script, or without an
// origin are rejected before anything runs.
func TestGrantsOfNobodyAreRefused(t *testing.T) {
	t.Parallel()
	const script = "agent-browser:scripts/authenticated-session.sh"
	for name, c := range map[string]struct{ config, workspace, code string }{
		"of a workspace":    {"{}\n", "browser: {grants: [{script: '" + script + "', origin: 'https://app.example'}]}\n", "config_invalid"},
		"no script":         {"browser: {endpoint: 'http://127.0.0.1:1', origin: 'https://app.example', grants: [{script: agent-browser, origin: 'https://app.example'}]}\n", "", "usage"},
		"a pattern":         {"browser: {endpoint: 'http://127.0.0.1:1', origin: 'https://app.example', grants: [{script: '*:scripts/a.sh', origin: 'https://app.example'}]}\n", "", "usage"},
		"no origin":         {"browser: {endpoint: 'http://127.0.0.1:1', origin: 'https://app.example', grants: [{script: '" + script + "'}]}\n", "", "lease_invalid"},
		"every origin":      {"browser: {endpoint: 'http://127.0.0.1:1', origin: 'https://app.example', grants: [{script: '" + script + "', origin: '*'}]}\n", "", "lease_invalid"},
		"an unknown key":    {"browser: {endpoint: 'http://127.0.0.1:1', origin: 'https://app.example', grants: [{scripts: '" + script + "', origin: 'https://app.example'}]}\n", "", "config_invalid"},
		"another machine's": {"browser: {endpoint: 'http://example.com:9222', origin: 'https://app.example'}\n", "", "lease_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"config.yaml": c.config}
			if c.workspace != "" {
				files["metier.yaml"] = c.workspace
			}
			k := newKin(t, files)
			k.want(2, "run", "--output-mode", "batch", "--prompt", "Go.", "--allow-subagent-profile", "browser")
			if said := k.err.String(); !strings.Contains(said, "["+c.code+"]") || !strings.Contains(said, "hint: ") || len(k.server.Requests()) > 0 {
				t.Errorf("%d requests\n%s", len(k.server.Requests()), said)
			}
		})
	}
}
