package shell

import (
	"path"
	"slices"
	"strings"
)

// own are programs that decide themselves what they start: interpreters, build tools, clients.
// Their arguments are not matched against rules, unless the subcommand is one of the words listed
// here, which start a named program.
var own = map[string]string{
	"git":    "bisect submodule rebase filter-branch difftool mergetool merge-index remote-ext grep config shell web--browse send-email instaweb",
	"docker": "run exec create compose debug", "podman": "run exec create compose runlabel unshare ssh", "kubectl": "exec run debug job cronjob cj deployment deploy", "npm": "exec exe x explore explor explo", "pnpm": "exec dlx x", "yarn": "exec dlx", "bun": "x exec run", "uv": "run tool", "pipx": "run", "cargo": "", "go": "tool",
	"make": "", "gmake": "", "cmake": "-E", "ninja": "", "meson": "", "bazel": "run", "python": "", "python2": "", "python3": "", "pypy3": "", "node": "", "nodejs": "", "deno": "", "ruby": "", "perl": "", "php": "", "lua": "",
	"Rscript": "", "julia": "", "swift": "", "java": "", "javac": "", "mvn": "", "gradle": "", "rustc": "", "rustup": "run", "gcc": "", "g++": "", "cc": "", "c++": "", "clang": "", "clang++": "", "ld": "", "ar": "", "gofmt": "",
	"pip": "", "pip3": "", "pytest": "", "tox": "", "mypy": "", "ruff": "", "black": "", "flake8": "", "pylint": "", "isort": "", "eslint": "", "prettier": "", "tsc": "", "jest": "", "vitest": "", "vite": "", "webpack": "", "rollup": "", "esbuild": "",
	"golangci-lint": "", "staticcheck": "", "shellcheck": "", "shfmt": "", "markdownlint": "", "yamllint": "", "helm": "", "terraform": "", "tofu": "", "ansible-playbook": "", "aws": "", "gcloud": "", "az": "", "gh": "", "curl": "", "wget": "", "psql": "", "mysql": "", "sqlite3": "",
	"redis-cli": "", "mongosh": "", "gem": "", "brew": "", "apt": "", "apt-get": "", "apt-cache": "", "dpkg": "", "ffmpeg": "", "ffprobe": "", "convert": "", "magick": "", "pandoc": "", "pdftotext": "", "pdftoppm": "", "pdfinfo": "", "qpdf": "", "soffice": "", "libreoffice": "",
	"tesseract": "", "exiftool": "", "openssl": "", "mkdocs": "", "hugo": "", "playwright": "", "cypress": "", "agent-browser": "", "metier": "", "just": "", "dotnet": "", "mix": "", "composer": "",
}

// globals lists the words that may precede the subcommand of a program.
type globals struct {
	flags  string // options without a value, and words that name a group of subcommands
	valued string // options with a value, and words that are followed by a name
	// any: the value of an option is the rest of its word, or the next word whatever it is.
	// Otherwise, a next word that begins with a hyphen may be another option.
	any bool
}

// before has the options of the programs in own that start a named program. An option that is not
// listed may have a value or none.
var before = map[string]globals{
	"git": {any: true, flags: "-p --paginate -P --no-pager --bare --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs",
		valued: "-C --git-dir --work-tree --namespace --super-prefix --attr-source"},
	"docker": {any: true, flags: "-D --debug --tls --tlsverify container service sandbox", valued: "--config --context -H --host -l --log-level --tlscacert --tlscert --tlskey"},
	"podman": {any: true, flags: "-r --remote --syslog --noout --transient-store container machine",
		valued: "--cgroup-manager --config --connection --conmon --events-backend --hooks-dir --identity --imagestore --log-level --module --network-cmd-path --network-config-dir --out --root --runroot --runtime --runtime-flag --ssh --storage-driver --storage-opt --tmpdir --url --volumepath"},
	"kubectl": {any: true, flags: "--disable-compression --insecure-skip-tls-verify --match-server-version --warnings-as-errors --save-config create",
		valued: "--as --as-group --as-uid --cache-dir --certificate-authority --client-certificate --client-key --cluster --context --kubeconfig --log-flush-frequency -n --namespace --password --profile --profile-output --request-timeout -s --server --tls-server-name --token --user --username -v --v --vmodule -f --filename -k --kustomize -o --output"},
	"npm": {flags: "-g --global -s --silent -q --quiet -d -dd -ddd --verbose -y --yes -n -f --force -a --all -l --long -p --parseable --json --offline --prefer-offline --prefer-online --ws --workspaces -iwr --include-workspace-root --if-present --ignore-scripts --legacy-peer-deps --strict-peer-deps --foreground-scripts --dry-run --production --progress --no-progress --audit --no-audit --fund --no-fund --no-color --no-save --no-update-notifier --package-lock-only --no-package-lock -S --save -D --save-dev -E --save-exact -O --save-optional -P --save-prod true false null",
		valued: "--prefix -C -w --workspace --registry --reg --loglevel --userconfig --globalconfig --cache --omit --include --only --tag --otp --scope -L --location --install-strategy --node-options --logs-dir --cafile --proxy --https-proxy"},
	"pnpm": {flags: "-r --recursive -w --workspace-root -s --silent -g --global --parallel --stream --aggregate-output --if-present --offline --prefer-offline --no-bail --bail --sort --no-sort --reverse --no-color --use-stderr --frozen-lockfile --no-frozen-lockfile --ignore-scripts --fail-if-no-match --include-workspace-root -P --prod -D --dev recursive multi m true false null",
		valued: "-F --filter --filter-prod -C --dir --prefix --workspace-concurrency --loglevel --reporter --resume-from --changed-files-ignore-pattern --test-pattern --store-dir --lockfile-dir --registry"},
	"yarn": {flags: "-s --silent --verbose --offline --json --non-interactive --no-progress --frozen-lockfile --immutable -A --all -p --parallel -i --interlaced -t --topological --topological-dev -v -R --recursive -W --worktree workspaces foreach run",
		valued: "--cwd --registry --cache-folder --modules-folder --mutex --network-timeout --from --include --exclude -j --jobs workspace"},
	"bun":   {flags: "-b --bun --silent --hot --watch --smol", valued: "--cwd --filter -F --env-file --preload -r"},
	"uv":    {any: true, flags: "-q --quiet -v --verbose -n --no-cache --offline --no-progress --no-config --native-tls --managed-python --no-managed-python --no-python-downloads --preview", valued: "--directory --project --config-file --cache-dir --color --python-preference --allow-insecure-host"},
	"go":    {any: true, valued: "-C"},
	"cmake": {any: true, flags: "--fresh -L -N -Wdev -Wno-dev", valued: "-S -B -G -D -U -C -T -A --build --install --preset --open --target -j --parallel --config --prefix"},
}

// subcommands adds the command of a program with subcommands as it is without the options before the
// subcommand, with and without a value of each: git -C dir push is git push. It looks at most words
// before the subcommand, and reports whether that was enough.
func (s *starter) subcommands(words []word, most int) bool {
	base := path.Base(words[0].text)
	if sub, is := strings.CutPrefix(base, "git-"); is {
		s.starts(append([]string{"git", sub}, texts(words[1:])...))
	}
	if base == "git" && unknownToGit(words) {
		s.starts([]string{"git", Dynamic})
	}
	if _, wraps := wrappers[base]; wraps {
		return true
	}
	value := false // the word may be the value of the option before it
	for i := 1; i < len(words); i++ {
		if i == most {
			return false
		}
		if !s.spends(words[i:]) {
			return true // it adds an unknown command
		}
		option := strings.HasPrefix(words[i].text, "-") || strings.HasPrefix(words[i].text, "+") // cargo +nightly
		if !option && !value {
			return true
		}
		for j := i + 1; option && j <= min(i+2, len(words)-1); j++ {
			s.starts(append([]string{base}, texts(words[j:])...))
		}
		value = option
	}
	return true
}

// decides handles a program that decides itself what it starts.
func (s *starter) decides(words []word, fed bool) {
	if slices.ContainsFunc(words, func(w word) bool { return strings.HasPrefix(w.text, "--exec-path=") }) {
		s.unknown() // the commands of git are elsewhere
	}
	if path.Base(words[0].text) == "git" && slices.ContainsFunc(words, func(w word) bool { return strings.HasPrefix(w.text, "--config-env") }) {
		s.unknown() // a variable has the value
	}
	if namesProgram(words) || s.startsNamed(words) {
		s.strict(words, fed)
	}
}

// startsNamed reports whether the subcommand of a program may be one that starts a named program. A
// word after an option that is not listed may be its value or the subcommand.
func (s *starter) startsNamed(words []word) bool {
	base := path.Base(words[0].text)
	named, g := set(own[base]), before[base]
	if len(named) == 0 {
		return false
	}
	flags, valued := set(g.flags), set(g.valued)
	value, sure := false, false // the word may be, or is, the value of the option before it
	for _, w := range words[1:] {
		option := strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+") // rustup +nightly
		if sure && (w.known && !option || !w.known && (g.any || s.bound(w)) && !s.splits(w)) {
			value, sure = !w.one, false // without quotes, it may be no word
			continue
		}
		whole := strings.Contains(w.text, "=") || g.any && len(w.text) > 2 && w.text[1] != '-' && valued[w.text[:2]]
		switch {
		case !w.known, named[w.text], w.text == "-c", w.text == "--exec-path":
			return true
		case flags[w.text], option && whole:
			value, sure = false, false
		case valued[w.text]:
			value, sure = true, !value
		case option:
			value, sure = true, false
		case !value:
			return false
		default:
			value = false
		}
	}
	return false
}
