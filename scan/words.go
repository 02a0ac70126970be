package scan

import (
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// attackWords announce text about attacks.
var attackWords = set(`attack attacks attacker attackers attacker's exploit exploits exploited exploitation malicious malware vulnerable vulnerability vulnerabilities
	injection injections jailbreak adversarial compromised backdoored phishing hostile red-team`)

// topicWords do so if there are two of them. One of them is an ordinary word.
var topicWords = set(`threat threats payload payloads poc abuse suspicious detect detects detection detections indicators heuristics evasion`)

// avoidWords announce text that a reader should not follow.
var avoidWords = set(`never don't dont avoid avoids not unsafe insecure dangerous anti-pattern anti-patterns antipattern antipatterns forbidden prohibited
	blocked blocks deny denied denies disallowed refuse reject rejects pitfalls mistakes forbids`)

// concept is a set of words with one meaning for the rules.
type concept uint8

const (
	sends concept = iota
	gathers
	secrets
	secretFile
	away
	headers
	fetches
	address
	riskyAddress
	archive
	program
	unpacks
	withPassword
	runs
	guards
	disables
	otherTools
	precedence
	follows
	instructions
	addressee
	hidden
	asking
	without
	everything
	conversation
	remembers
	memory
	payment
	wallet
	pastes
	terminal
	conceptCount
)

// vocabulary are the words of each concept. Words with @ stand for kinds of addresses and paths.
var vocabulary = map[concept]string{
	sends:        "send sends post upload transmit exfiltrate forward leak submit email deliver relay",
	gathers:      "read collect gather harvest extract steal dump copy include attach cat grab open retrieve locate scan",
	secrets:      "credentials credential passwords secrets keys api-keys api_keys keychain cookies seed mnemonic passphrase passphrases private-keys access-tokens auth-tokens tokens environment-variables env id_rsa wallets",
	secretFile:   "@secret",
	away:         "@url endpoint webhook server collector c2 @risky url listener",
	headers:      "header headers authorization bearer authenticate authentication authenticated login sign-in oauth request requests",
	fetches:      "download fetch curl wget get retrieve",
	address:      "@url @risky",
	riskyAddress: "@risky",
	archive:      "@archive",
	program:      "@program",
	unpacks:      "extract unpack unzip unrar decompress archive extraction unpacking extracting",
	withPassword: "password passwords passcode pass passwort contraseña",
	runs:         "run execute launch open start install double-click execute:",
	guards:       "sandbox antivirus defender gatekeeper firewall approval approvals permission permissions confirmation safety safeguards safeguard guardrails selinux sip security",
	disables:     "disable bypass deactivate circumvent ignore",
	otherTools:   "tools skills tool skill",
	precedence:   "override overrides supersede supersedes replaces precedence shadow",
	follows:      "follow obey execute apply perform",
	instructions: "instructions commands directives steps",
	addressee:    "assistant agent model ai claude llm chatgpt copilot you",
	hidden:       "silently secretly quietly covertly stealthily invisibly",
	asking:       "asking confirmation approval permission consent confirming notifying",
	without:      "without",
	everything:   "all every any everything entire full whole",
	conversation: "conversation chat messages history transcript",
	remembers:    "append write add insert save modify edit overwrite",
	memory:       "claude.md agents.md memory.md soul.md .cursorrules settings.json gemini.md",
	payment:      "transfer pay send withdraw swap",
	wallet:       "@wallet",
	pastes:       "paste",
	terminal:     "terminal powershell console shell cmd",
}

var dictionary = func() map[string][]concept {
	out := map[string][]concept{}
	for c := range conceptCount {
		for w := range strings.FieldsSeq(vocabulary[c]) {
			out[w] = append(out[w], c)
		}
	}
	return out
}()

// conceptsOf returns the concepts of a word in lower case.
func conceptsOf(w string) []concept {
	if found, ok := dictionary[w]; ok {
		return found
	}
	return dictionary[kindOf(w)]
}

// kindOf returns what an address or a path is, or "".
func kindOf(w string) string {
	if !strings.ContainsAny(w, "./") && !strings.HasPrefix(w, "0x") {
		return ""
	}
	switch ext := path.Ext(strings.TrimRight(w, "/")); {
	case archives[ext]:
		return "@archive"
	case programs[ext]:
		return "@program"
	}
	switch {
	case strings.HasPrefix(w, "http://") || strings.HasPrefix(w, "https://"):
		if hostOf(w).risky() {
			return "@risky"
		}
		return "@url"
	case strings.HasPrefix(w, "0x") && len(w) == 42 && strings.Trim(w[2:], "0123456789abcdef") == "":
		return "@wallet"
	case secretPath(w) != "":
		return "@secret"
	}
	return ""
}

var (
	archives = set(".zip .rar .7z .tgz .gz .xz .bz2 .tar .cab .iso")
	programs = set(".exe .msi .scr .dmg .pkg .bat .vbs .hta .lnk .jar .appimage .apk .dll")
)

// host is what an address is known for.
type host struct {
	name      string
	plain     bool // http
	numeric   bool // an IP address
	collector bool // a service that anybody can use to collect data, or to publish text
	short     bool // a service that hides the real address
	local     bool
	installer bool // a project's own address of its installer
	spoofed   bool // letters that look like others
}

// risky reports whether an address hides who is behind it.
func (h host) risky() bool {
	return !h.local && (h.numeric || h.collector || h.short || h.spoofed)
}

func hostOf(address string) host {
	u, err := url.Parse(strings.TrimRight(address, `'")>,;`))
	if err != nil || u.Host == "" {
		if !strings.Contains(address, "://") {
			return hostOf("https://" + address)
		}
		_, rest, _ := strings.Cut(address, "://")
		name, _, _ := strings.Cut(rest, "/")
		u = &url.URL{Host: name}
	}
	name := strings.ToLower(u.Hostname())
	h := host{name: name, plain: u.Scheme == "http", collector: within(name, collectors), short: within(name, shorteners)}
	ip, err := netip.ParseAddr(name)
	h.local = name == "localhost" || strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".internal") ||
		err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified())
	h.numeric = name != "" && strings.Contains(name, ".") && strings.Trim(name, "0123456789.") == "" || strings.HasPrefix(name, "0x")
	h.spoofed = strings.HasPrefix(name, "xn--") && !strings.Contains(name, "${") || mixedHost(name)
	h.installer = documented(name, u.Path) || name == "raw.githubusercontent.com" && wellKnownRepository(u.Path)
	return h
}

// within reports whether a host is one of a list, or below it.
func within(name string, list map[string]bool) bool {
	for name != "" {
		if list[name] {
			return true
		}
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		name = rest
	}
	return false
}

// documented reports whether an address is one where a project documents its installer.
func documented(name, p string) bool {
	first, rest, _ := strings.Cut(name, ".")
	if strings.HasPrefix(p, "/x/") && name == "deno.land" { // anybody can publish there
		return false
	}
	return installers[name] || installerHosts[first] && installers[rest]
}

// installerHosts are hosts of a project's domain that serve its installer.
var installerHosts = set("www get install sh cli dl download downloads releases")

// wellKnownRepository reports whether a path of raw.githubusercontent.com is in a branch or a tag of a
// known owner. Pull requests, and commits of forks, are below the owner's name as well.
func wellKnownRepository(p string) bool {
	owner, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	_, ref, _ := strings.Cut(rest, "/")
	ref, _, _ = strings.Cut(ref, "/")
	if strings.Contains(p, "/refs/pull/") || strings.Contains(p, "..") || len(ref) >= 7 && strings.Trim(ref, "0123456789abcdef") == "" {
		return false
	}
	return set("homebrew nvm-sh ohmyzsh pyenv rbenv asdf-vm astral-sh golangci helm kubernetes docker microsoft google googlecloudplatform aws hashicorp anthropics openai github cli")[strings.ToLower(owner)]
}

// collectors are services that anybody can use to collect data, or to publish a text.
var collectors = set(`webhook.site requestbin.com requestbin.net pipedream.net m.pipedream.net beeceptor.com requestcatcher.com hookbin.com interact.sh oast.fun oast.live oast.pro
	burpcollaborator.net canarytokens.com dnslog.cn ngrok.io ngrok-free.app ngrok.app trycloudflare.com serveo.net loca.lt localhost.run pastebin.com paste.ee hastebin.com ghostbin.com
	rentry.co rentry.org glot.io termbin.com ix.io 0x0.st transfer.sh file.io anonfiles.com gofile.io catbox.moe temp.sh bashupload.com api.telegram.org discordapp.com`)

// shorteners hide the real address.
var shorteners = set("bit.ly tinyurl.com t.co goo.gl is.gd cutt.ly rb.gy rebrand.ly shorturl.at ow.ly v.gd tiny.cc")

// installers are addresses of projects that document this way to install them.
var installers = set(`rustup.rs get.docker.com ollama.com ollama.ai aka.ms dot.net foundry.paradigm.xyz mise.run mise.jdx.dev bun.sh deno.land deno.com astral.sh fly.io
	install.python-poetry.org get.pnpm.io starship.rs nixos.org install.determinate.systems get.helm.sh get.k3s.io tailscale.com brew.sh sdk.cloud.google.com cli.github.com
	deb.nodesource.com rpm.nodesource.com claude.ai cursor.com opencode.ai get.sdkman.io get.volta.sh fnm.vercel.app sh.rustup.rs sh.uv.run pixi.sh micro.mamba.pm
	releases.hashicorp.com apt.releases.hashicorp.com dl.google.com pulumi.com get.pulumi.com railway.app supabase.com stripe.com vercel.com netlify.com render.com
	install.duckdb.org sentry.io cli.cloudflare.com app.getambassador.io entire.io hermit.pub devenv.sh flox.dev just.systems zed.dev npmjs.com`)

// secretFiles are parts of the paths of files with credentials.
var secretFiles = []struct{ part, name string }{
	{".ssh/id_", "an SSH key"}, {".ssh/authorized_keys", "SSH access"}, {".aws/credentials", "AWS credentials"}, {".netrc", "a password file"}, {".pgpass", "a password file"},
	{".git-credentials", "Git credentials"}, {".docker/config.json", "registry credentials"}, {".kube/config", "cluster credentials"}, {".npmrc", "a registry token"}, {".pypirc", "a registry token"},
	{"gcloud/application_default_credentials", "cloud credentials"}, {"gcloud/credentials.db", "cloud credentials"}, {".azure/accesstokens", "cloud credentials"}, {".azure/msal_token_cache", "cloud credentials"},
	{"/etc/shadow", "password hashes"}, {"/etc/sudoers", "the rights of users"}, {"login data", "browser passwords"}, {"cookies.sqlite", "browser cookies"}, {"logins.json", "browser passwords"},
	{"key4.db", "browser passwords"}, {"login.keychain", "a keychain"}, {"library/keychains", "a keychain"}, {"wallet.dat", "a wallet"}, {".gnupg/", "a private key"}, {"solana/id.json", "a wallet"},
	{".ethereum/keystore", "a wallet"}, {".electrum/wallets", "a wallet"}, {".config/gh/hosts.yml", "a GitHub token"}, {".claude/.credentials", "an agent's credentials"}, {".codex/auth.json", "an agent's credentials"},
	{".openclaw/credentials", "an agent's credentials"}, {".clawdbot/.env", "an agent's credentials"}, {".vault-token", "a vault token"}, {".terraform.d/credentials", "cloud credentials"},
	{"169.254.169.254", "cloud credentials"}, {"metadata.google.internal", "cloud credentials"}, {"/proc/self/environ", "the environment"},
}

// secretFolders contain files with credentials.
var secretFolders = []struct{ name, what string }{
	{".ssh", "SSH keys"}, {".aws", "cloud credentials"}, {".azure", "cloud credentials"}, {".config/gcloud", "cloud credentials"}, {".gnupg", "private keys"}, {".kube", "cluster credentials"},
}

// secretPath returns what credentials a path in lower case has, or "". The path of a folder, or a
// pattern for all of its files, has those of the files.
func secretPath(p string) string {
	if !strings.ContainsAny(p, "./") || strings.HasSuffix(p, ".pub") {
		return ""
	}
	for _, f := range secretFiles {
		if strings.Contains(p, f.part) {
			return f.name
		}
	}
	for _, f := range secretFolders {
		for rest := p; ; {
			before, after, found := strings.Cut(rest, f.name)
			if !found {
				break
			}
			whole := strings.TrimPrefix(after, "/")
			if (before == "" || strings.HasSuffix(before, "/") || strings.ContainsAny(before[len(before)-1:], `"'`)) && (whole == "" || strings.ContainsAny(whole[:1], `*?[{"'),; ]`) || strings.HasPrefix(whole, "${")) {
				return f.what
			}
			rest = after
		}
	}
	if strings.Contains(p, "/proc/") && strings.HasSuffix(p, "/environ") {
		return "the environment"
	}
	return ""
}

// environmentFile reports whether a path is that of a file with variables of a project.
func environmentFile(p string) bool {
	base := path.Base(p)
	return base == ".env" || strings.HasPrefix(base, ".env.") && !strings.Contains(base, "example") && !strings.Contains(base, "sample") && !strings.Contains(base, "template")
}
