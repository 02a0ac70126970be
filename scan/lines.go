package scan

import (
	"regexp"
	"strings"
)

// started is a file that the instructions start.
type started struct{ word, lang string }

// startsFile matches a program and the file that it executes.
var startsFile = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(])(bash|sh|zsh|source|python3?|uv run|node|deno run|bun|perl|ruby|pwsh)\s+(?:-\S+\s+)*["']?([\w./${}~-]+)`)

// startedBy returns the files that SKILL.md starts. They are read as what starts them, whatever their
// names are.
func (s *scanner) startedBy() (out []started) {
	for _, name := range []string{"SKILL.md", "skill.md"} {
		for _, m := range startsFile.FindAllStringSubmatch(string(s.start(name, s.limits.MaxFile)), maxStarted) {
			lang := shellCode
			switch program, _, _ := strings.Cut(m[1], " "); program {
			case "python", "python3", "uv", "perl", "ruby":
				lang = python
			case "node", "deno", "bun":
				lang = javascript
			case "pwsh":
				lang = powershell
			}
			out = append(out, started{m[2], lang})
		}
	}
	return out
}

const maxStarted = 200

// Limits of the lines of a file that are read as commands.
const (
	maxLines = 2_000
	maxLine  = 8 << 10 // bytes
)

// commandMarks are parts of lines that can be commands that the rules are about.
var commandMarks = []string{"curl", "wget", "| sh", "|sh", "| bash", "|bash", "| zsh", "bash -", "sh -c", "/dev/tcp/", "/dev/udp/", "nc -", "nc ", "ncat", "socat ", "rm -", "base64", "dd if", "dd of", "eval ",
	"authorized_keys", ".ssh", ".aws", ".gnupg", ".kube", "/etc/s", "/etc/p", "crontab", "iwr ", "irm ", "iex", "mkfs", "openssl ", "nslookup ", "dig ", "scp ", "rsync ", "$(", "${IFS}", "powershell", "xxd", "env |", "printenv", "find ", "git config", "chmod ", "useradd", "docker run", "npx ", "uvx ", "pip install", "mshta", "certutil", ">>"}

// lines applies the rules for commands to the lines of a file, and to the quoted texts in them. They are
// the commands of Makefiles, of workflows, of hooks in settings, and of programs in other languages.
func (s *scanner) lines(f *source, u unit) {
	n, at := 0, 0
	for line := range strings.SplitAfterSeq(u.text, "\n") {
		from := at
		at += len(line)
		if !marked(line) {
			continue
		}
		if n++; n > maxLines || len(line) > maxLine {
			f.partly = true
			continue
		}
		for _, c := range commandsIn(line, executable(f.lang) && f.lang != powershell) {
			before := strings.ToLower(line[:c.at])
			mention := u.mention || f.attacks || aboutAttacks(before) || refused(before)
			place := inScript
			if u.place == inFence {
				place = inData // an example of a file
			}
			s.commands(f, unit{file: f, place: place, text: c.text, starts: []segment{{0, u.offset(from)}}, fixed: true, mention: mention})
		}
	}
}

func marked(text string) bool { return oneOf(text, commandMarks...) }

// lead matches what is before a command in a line: a bullet, a key, or the word of a Dockerfile.
var lead = regexp.MustCompile(`^[\s@!-]*(?:"?[A-Za-z_][\w.-]*"?:\s+)?[|>]?\s*(?:(?:RUN|CMD|ENTRYPOINT)\s+)?`)

// part is a part of a line.
type part struct {
	text string
	at   int
}

// commandsIn returns the texts of a line that can be commands: the quoted ones, and unless only those
// are wanted, the line without what is before a command.
func commandsIn(line string, quotedOnly bool) (out []part) {
	if at := len(lead.FindString(line)); !quotedOnly && at < len(line) && line[at] != '"' {
		out = append(out, part{line[at:], at})
	}
	for i := 0; i < len(line); i++ {
		if quote := line[i]; quote == '"' || quote == '\'' || quote == '`' {
			end := closing(line, i)
			if text := unescaped.Replace(line[i+1 : max(i+1, end-1)]); marked(text) {
				out = append(out, part{text[len(lead.FindString(text)):], i})
			}
			i = end - 1
		}
	}
	return out
}

var unescaped = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, " ", `\/`, "/")
