package scan

import (
	"regexp"
	"slices"
	"strings"

	"metier/internal/confusable"
)

// Ability is something that the code of a skill can do if it runs, and where that was seen first.
type Ability struct {
	Name string `json:"ability"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// The names of abilities.
const (
	Network       = "network"
	Uploads       = "uploads"
	RunsDownloads = "runs_downloads"
	ReadsSecrets  = "reads_credentials"
	ReadsEnv      = "reads_environment"
	Deletes       = "deletes"
	WritesOutside = "writes_outside"
	Installs      = "installs_packages"
	Services      = "starts_services"
	Privileges    = "gets_privileges"
	RunsCode      = "runs_generated_code"
	StartsOthers  = "starts_programs"
	Cloud         = "changes_cloud"
	Spends        = "spends_money"
	Agents        = "starts_agents"
)

// programAbilities are the abilities of programs. The pattern matches the arguments.
var programAbilities = []struct {
	name, programs string
	args           *regexp.Regexp
}{
	{Network, "curl wget ssh scp sftp rsync nc ncat socat telnet ftp aria2c http xh iwr irm invoke-webrequest invoke-restmethod npx uvx", nil},
	{Network, "git", regexp.MustCompile(`^(clone|pull|push|fetch|remote update)\b`)},
	{RunsDownloads, "npx uvx bunx", nil},
	{RunsDownloads, "pnpm yarn", regexp.MustCompile(`^dlx\b`)},
	{Deletes, "rm rmdir shred srm unlink", nil},
	{Deletes, "find", regexp.MustCompile(`-delete\b|-exec rm\b`)},
	{Deletes, "git", regexp.MustCompile(`^(clean|reset --hard|branch -D)`)},
	{Installs, "apt apt-get yum dnf brew apk pacman winget choco snap gem", regexp.MustCompile(`\binstall\b|\badd\b`)},
	{Installs, "pip pip3 npm pnpm yarn bun cargo go uv poetry", regexp.MustCompile(`(^| )(install|i|add|ci)( |$)`)},
	{Services, "systemctl launchctl service crontab nohup pm2 supervisorctl", nil},
	{Services, "docker podman", regexp.MustCompile(`^(run|compose up|start)\b`)},
	{Privileges, "sudo doas su pkexec runas", nil},
	{Cloud, "aws gcloud az kubectl terraform pulumi helm heroku vercel netlify wrangler flyctl hcloud doctl", nil},
	{Spends, "cast", regexp.MustCompile(`^(send|mktx|publish)\b`)},
	{Spends, "solana spl-token", regexp.MustCompile(`^transfer\b`)},
	{Spends, "bitcoin-cli", regexp.MustCompile(`^send`)},
	{Agents, "claude codex gemini opencode aider droid cursor-agent goose", nil},
}

// codeAbilities are the abilities of statements by texts in them.
var codeAbilities = []struct {
	name  string
	texts []string
}{
	{Network, []string{"requests.", "urlopen(", "urllib.request", "httpx.", "aiohttp", "fetch(", "axios", "http.client", "socket.", "Invoke-WebRequest", "Invoke-RestMethod", "Net::HTTP", "WebSocket("}},
	{Deletes, []string{"os.remove(", "os.unlink(", "shutil.rmtree(", ".unlink(", "fs.rm(", "fs.rmSync(", "unlinkSync(", "Remove-Item"}},
	{StartsOthers, []string{"subprocess.", "os.system(", "os.popen(", "child_process", "execSync(", "spawn(", "Start-Process"}},
	{RunsCode, []string{" eval(", "=eval(", "exec(", "new Function(", "Invoke-Expression", "importlib.import_module("}},
	{ReadsEnv, []string{"os.environ", "os.getenv(", "process.env", "$env:"}},
	{Spends, []string{"sendTransaction(", "eth_sendTransaction", "paymentIntents.create", "wrapFetchWithPayment", "payments.create("}},
}

// outside matches files outside of the working folder.
var outside = regexp.MustCompile(`^(~|/|\$\{HOME\}|[A-Za-z]:\\)`)

func (s *scanner) can(name, file string, line int) {
	if _, seen := s.blast[name]; !seen {
		s.blast[name] = place{file, line}
	}
}

// usesOf records the abilities of a command.
func (s *scanner) usesOf(f *source, u unit, a action, offset int) {
	if u.mention || f.fixture || len(a.Words) == 0 || a.Name != "" && a.in == 0 {
		return
	}
	line, _ := f.at(offset)
	for _, p := range programAbilities {
		if programSets[p.programs][a.program] && (p.args == nil || p.args.MatchString(a.args)) || p.name == Privileges && programSets[p.programs][a.Words[0]] {
			s.can(p.name, f.path, line)
		}
	}
	for _, w := range a.Writes {
		if outside.MatchString(w) && !strings.HasPrefix(w, "/tmp/") && !strings.HasPrefix(w, "/dev/") {
			s.can(WritesOutside, f.path, line)
		}
	}
	if a.in&secret != 0 {
		s.can(ReadsSecrets, f.path, line)
	}
	if (a.in|a.out)&environ != 0 {
		s.can(ReadsEnv, f.path, line)
	}
	switch {
	case a.does == transmits:
		s.can(Uploads, f.path, line)
		s.can(Network, f.path, line)
	case a.does == executes && a.in&(download|installer|untrusted) != 0:
		s.can(RunsDownloads, f.path, line)
	case a.does == executes && a.text != "":
		s.can(RunsCode, f.path, line)
	}
}

var programSets = func() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, p := range programAbilities {
		out[p.programs] = set(p.programs)
	}
	return out
}()

// usesOfCode records the abilities of a statement.
func (s *scanner) usesOfCode(f *source, st statement, u unit, uses label, does deed) {
	if u.mention || f.fixture {
		return
	}
	line := 0
	can := func(name string) {
		if _, seen := s.blast[name]; seen {
			return
		}
		if line == 0 {
			line, _ = f.at(u.offset(st.at))
		}
		s.can(name, f.path, line)
	}
	for _, a := range codeAbilities {
		if _, seen := s.blast[a.name]; !seen && slices.ContainsFunc(a.texts, func(t string) bool { return strings.Contains(st.text, t) }) {
			can(a.name)
		}
	}
	if uses&secret != 0 {
		can(ReadsSecrets)
	}
	if does == transmits {
		can(Uploads)
	}
}

// abilities returns the abilities in the order of their names.
func (s *scanner) abilities() []Ability {
	out := []Ability{}
	for name, at := range s.blast {
		out = append(out, Ability{name, at.file, at.line})
	}
	slices.SortFunc(out, func(a, b Ability) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// claims are promises of a description, with the abilities that break them.
var claims = []struct {
	text   *regexp.Regexp
	broken []string
}{
	{regexp.MustCompile(`(?i)\b(works? (fully |completely |entirely )?offline|no network (access|calls|requests)|without (any )?network access|never (uploads?|sends?|transmits?) |no data leaves|(100% |fully |entirely )local[- ]only)`), []string{Uploads, RunsDownloads}},
	{regexp.MustCompile(`(?i)\b(strictly read[- ]only|read[- ]only (skill|tool|access|analysis)|never (modif(y|ies)|deletes?|writes?) )`), []string{Deletes, WritesOutside, Privileges}},
}

// scope compares what a skill declares with what its code can do.
func (s *scanner) scope(others []string) {
	at := func(id, excerpt string, p place) {
		r := table.byID[id]
		s.finish(r, Finding{File: p.file, Line: p.line, Excerpt: excerpt, Confidence: r.Confidence}, excerpt)
	}
	said := s.front.Description + "\n" + s.front.Compatibility
	for _, c := range claims {
		claim := c.text.FindString(said[:min(len(said), 8<<10)])
		for _, name := range c.broken {
			if p, can := s.blast[name]; can && claim != "" {
				at("contradicts-claim", "declared: "+excerpt(claim, 0)+"; observed: "+name, p)
			}
		}
	}
	if s.front.AllowedToolsDeclared {
		runs := slices.ContainsFunc(s.front.AllowedTools, func(t string) bool { return toolRuns.MatchString(t) })
		fetches := runs || slices.ContainsFunc(s.front.AllowedTools, func(t string) bool { return toolFetches.MatchString(t) })
		for _, name := range []string{Uploads, Network, RunsDownloads} {
			if p, can := s.blast[name]; can && !fetches {
				at("undeclared-network", "allowed-tools has no tool for it; observed: "+name, p)
				break
			}
		}
		for _, name := range []string{StartsOthers, RunsCode, Deletes, Installs, Privileges} {
			if p, can := s.blast[name]; can && !runs {
				at("undeclared-commands", "allowed-tools has no tool for it; observed: "+name, p)
				break
			}
		}
	}
	name := s.front.Name
	if mixed := confusable.Mixed(name); mixed != "" {
		at("lookalike-name", excerpt(mixed, 0), place{s.frontAt, 1})
	}
	for _, o := range others {
		if name != "" && !strings.EqualFold(o, name) && confusable.Skeleton(o) == confusable.Skeleton(name) {
			at("lookalike-name", excerpt(confusable.Alike(name, o, "another skill"), 0), place{s.frontAt, 1})
			break
		}
	}
	if toolNames[strings.ToLower(name)] {
		at("tool-name", excerpt(name, 0), place{s.frontAt, 1})
	}
}

var (
	toolRuns    = regexp.MustCompile(`(?i)^(\*$|bash|shell|execute|run|terminal|python|powershell|task|exec|code)`)
	toolFetches = regexp.MustCompile(`(?i)(fetch|web|http|browser|curl|mcp__|search)`)
	toolNames   = set("bash read write edit grep glob webfetch web_fetch websearch web_search task read_file write_file run_script load_skill skill")
)
