package exectool_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// sampleTexts returns the shell texts of a file of package shell, about the
// denied program.
func sampleTexts(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile("../internal/shell/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	open := false
	for line := range strings.Lines(strings.ReplaceAll(string(b), "touch", denied)) {
		line = strings.NewReplacer("tou''ch", "za''p", `tou""ch`, `za""p`, `"to"uch`, `"za"p`, `t\ouch`, `z\ap`, `tou\"\"ch`, `za\"\"p`, "{tou,}ch", "{za,}p", "to?h", "z?p", "to*h", "z*p").Replace(strings.TrimSuffix(line, "\n"))
		if open {
			out[len(out)-1] += "\n" + line
			open = line != "E"
			continue
		}
		if strings.Contains(line, "kill") { // it would end the test's own driver
			continue
		}
		out = append(out, line)
		open = strings.Contains(line, "<<E") || strings.Contains(line, "<<'E'")
	}
	return out
}

// texts generates random shell texts: by a grammar that knows where bash
// evaluates or starts its input, and by changing known texts.
type texts struct {
	r     *rand.Rand
	known []string
	depth int
}

func newTexts(t testing.TB, seed uint64) *texts {
	known := append(sampleTexts(t, "hidden.txt"), sampleTexts(t, "ordinary.txt")...)
	return &texts{r: rand.New(rand.NewPCG(seed, 7)), known: slices.DeleteFunc(known, func(s string) bool { // these take long to start
		return strings.Contains(s, "npm") || strings.Contains(s, "python") || strings.Contains(s, "pip") || strings.Contains(s, "npx")
	})}
}

func (g *texts) many(n int) []string {
	out := make([]string, n)
	for i := range out {
		g.depth = 0
		switch g.r.IntN(10) {
		case 0, 1, 2:
			out[i] = g.changed()
		case 3:
			out[i] = g.changed() + g.one("; ", "\n", " && ", " | ", " || ", " & ") + g.line()
		default:
			out[i] = g.line()
		}
	}
	return out
}

func (g *texts) one(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *texts) sometimes(n int, s string) string {
	if g.r.IntN(n) == 0 {
		return s
	}
	return ""
}

func (g *texts) some(most int, sep string, f func() string) string {
	var parts []string
	for range 1 + g.r.IntN(most) {
		parts = append(parts, f())
	}
	return strings.Join(parts, sep)
}

// changed returns a known text with some of its pieces replaced, removed,
// doubled or taken from another.
func (g *texts) changed() string {
	pieces := func() []string { return strings.SplitAfter(g.one(g.known...), " ") }
	p := pieces()
	for range 1 + g.r.IntN(4) {
		i := g.r.IntN(len(p))
		switch g.r.IntN(6) {
		case 0:
			p[i] = g.word() + " "
		case 1:
			p = append(p[:i:i], p[i+1:]...)
			if len(p) == 0 {
				p = pieces()
			}
		case 2:
			p = append(p[:i:i], append([]string{g.word() + " "}, p[i:]...)...)
		case 3:
			o := pieces()
			p[i] = o[g.r.IntN(len(o))]
		case 4:
			o := pieces()
			p = append(p[:i:i], o[g.r.IntN(len(o)):]...)
			if len(p) == 0 {
				p = pieces()
			}
		case 5:
			o := p[i]
			if len(o) > 1 {
				j := g.r.IntN(len(o))
				p[i] = o[:j] + g.one("'", `"`, `\`, "$", "`", "$(", ")", ";", "\n", "{", "}", "[", "]", "=", "<", ">", "|", "&", "#", "~", "*", "?", "!", "@", " ", "''", denied) + o[j:]
			}
		}
	}
	return strings.Join(p, "")
}

func (g *texts) line() string {
	return g.some(3, g.one("; ", "; ", "; ", "\n", " && ", " || "), g.command)
}

// evil returns text that starts the denied program if something evaluates it.
func (g *texts) evil() string {
	return g.one(denied, denied+" x", "$("+denied+")", "`"+denied+"`", "a[$("+denied+")]", "a[`"+denied+"`]", "b[$("+denied+")]=1", "za\"\"p x", "za''p", `z\ap`, "$(za''p)", "() { zap; }", "-exec zap ;", "-exec=zap", "-e1ezap", "-vx[$(zap)]", "-v a[$(zap)]",
		"x -v a[$(zap)]", "$x", "${x@P}", "$((x))", "x", "y", "a[x]", "1", "echo zap", "eval zap", "; zap", "\nzap\n", "| zap", "& zap", "<(zap)", "zap|", "x=1 zap", "--compress-program=zap", "!zap", "{zap,}", "z?p", "$'zap'", "$'\\x7aap'", "%s zap")
}

func (g *texts) quoted(s string) string {
	switch g.r.IntN(6) {
	case 0, 1, 2:
		if !strings.Contains(s, "'") {
			return "'" + s + "'"
		}
		return `"` + strings.NewReplacer(`"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
	case 3:
		return `"` + strings.NewReplacer(`"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
	case 4:
		var b strings.Builder
		for i := range len(s) {
			if strings.IndexByte(" \n\t", s[i]) >= 0 {
				b.WriteString("'" + s[i:i+1] + "'")
				continue
			}
			b.WriteString(`\` + s[i:i+1])
		}
		return b.String()
	default:
		return "$'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(s) + "'"
	}
}

func (g *texts) name() string {
	return g.one("x", "x", "x", "y", "y", "z", "a", "b", "i", "f", "REPLY", "_", "PS4", "BASH_ENV", "PROMPT_COMMAND", "IFS", "ENV", "PATH", "OPTARG", "BASH_COMMAND", "MAPFILE", "PWD", "RANDOM", "1", "@", "#", "BASH_ALIASES", "BASH_CMDS", "a[0]", "b[x]", "BASH_REMATCH", "FUNCNAME", "LINENO", "HOME")
}

func (g *texts) plainName() string { return g.one("x", "x", "y", "z", "a", "b", "i", "f") }

func (g *texts) expansion() string {
	n := g.name()
	switch g.r.IntN(16) {
	case 0:
		return "${" + n + "@" + g.one("P", "Q", "E", "A", "a", "U", "L", "K", "u", "k") + "}"
	case 1:
		return "${!" + n + g.one("", "@", "*", "[@]", "[0]", "@P") + "}"
	case 2:
		return "${" + n + g.one(":", "[") + g.sum() + g.one("}", "]}", ":"+g.sum()+"}")
	case 3:
		return "${" + n + g.one(":-", "-", ":=", "=", ":+", "+", "#", "##", "%", "/", "//", "^", ",,") + g.word() + "}"
	case 4:
		return "$((" + g.sum() + "))"
	case 5:
		return "$[" + g.sum() + "]"
	case 6:
		return "${#" + n + g.one("", "[@]") + "}"
	case 7:
		return "${" + n + "[" + g.one("@", "*", g.sum()) + "]}"
	case 8:
		return "$(" + g.one("echo ", "printf %s ", "cat <<< ", "wc -l ", "") + g.word() + ")"
	case 9:
		return "~"
	case 10:
		return g.one("{a,b}", "{1..3}", "*", "f*", "?", "[a-z]", "/usr/bin/e*v", "{za,}p", "z{a,b}p", "{"+g.word()+",x}")
	default:
		if len(n) > 1 && strings.ContainsAny(n, "[") {
			return "${" + n + "}"
		}
		return "$" + n
	}
}

func (g *texts) sum() string {
	if g.depth++; g.depth > 12 {
		return "1"
	}
	switch g.r.IntN(9) {
	case 0:
		return g.plainName() + g.one("=", "+=", "++ +", "<", " == ", "*", "?") + g.one("1", "1:2", g.plainName())
	case 1:
		return g.expansion()
	case 2:
		return g.quoted(g.evil())
	case 3:
		return g.name() + "[" + g.sum() + "]"
	case 4:
		return `"$` + g.plainName() + `"`
	case 5:
		return g.one("1", "0", "16#f", "-1", "1+1", "(1)", "1,2")
	default:
		return g.name()
	}
}

func (g *texts) word() string {
	if g.depth++; g.depth > 24 {
		return "x"
	}
	switch g.r.IntN(12) {
	case 0, 1:
		return g.quoted(g.evil())
	case 2, 3:
		return g.expansion()
	case 4, 5:
		return `"` + strings.ReplaceAll(g.expansion(), `"`, "") + `"`
	case 6:
		return g.one("za", "x", "-", "--", "=") + g.word()
	case 7:
		return g.one("-v", "-e", "-c", "-n", "-x", "-s", "-i", "-a", "-p", "-o", "--", "-", "-1", "-exec", "{}", ";", "-I{}", "-f", "-u", "+x", "-eq", "=", "-P", "-t", "-C", "-d", "-E", "-w", "-k", "-L")
	case 8:
		return g.one("<(", ">(") + g.command() + ")"
	default:
		return g.one("x", "y", "f", "1", "a", "zap", "'zap'", "echo", "cat", "env", "sh", "x=1", "a=b", ".", "/dev/stdin", "/dev/fd/0", "f", "%s", "''", "s/x/y/", "xargs", "bash", "bash -c")
	}
}

func (g *texts) words(most int) string {
	return g.some(most, " ", g.word)
}

// command returns a command of any kind.
func (g *texts) command() string {
	if g.depth++; g.depth > 20 {
		return g.one(":", "zap", "echo x")
	}
	switch g.r.IntN(20) {
	case 0, 1, 2:
		return g.assignment() + g.sometimes(2, " "+g.command())
	case 3:
		return g.builtin()
	case 4, 5, 6:
		return g.builtin()
	case 7, 8, 9:
		return g.wrapper()
	case 10:
		return g.command() + " " + g.redirect()
	case 11, 12:
		return g.compound()
	case 13:
		return g.command() + g.one(" | ", " | ", " |& ") + g.one(g.command(), "sh", "bash", "x86_64", "xargs "+g.words(3), "bash -s", "while read -r x; do "+g.command()+"; done", "cat", "at now", "i386", "env -i x86_64", "nice sh", "bash /dev/stdin", ". /dev/stdin", "{ "+g.command()+"; }", "f", "exec sh")
	case 14:
		return g.one("time ", "! ", "time -p ", "time -- ", "coproc ", "coproc x ", "command ", "builtin ", "exec ", "time ! ") + g.command()
	case 15:
		return g.command() + " &"
	case 16:
		return g.program()
	default:
		return g.one("echo", ":", "printf %s", "cat", "true", "echo "+g.word(), g.word()) + " " + g.words(3)
	}
}

func (g *texts) assignment() string {
	name := g.name()
	if g.r.IntN(2) == 0 {
		name = g.plainName()
	}
	switch g.r.IntN(6) {
	case 0:
		return name + "=(" + g.words(3) + ")"
	case 1:
		return name + g.one("=", "+=") + g.word()
	case 2:
		return name + "[" + g.sum() + "]=" + g.word()
	default:
		return name + "=" + g.quoted(g.evil())
	}
}

func (g *texts) builtin() string {
	n := g.name()
	switch g.r.IntN(28) {
	case 0:
		return g.one("declare", "typeset", "local", "export", "readonly") + " " + g.one("", "-i ", "-n ", "-a ", "-A ", "-x ", "-g ", "-r ", "+x ", "-p ", "-f ") + g.one(g.assignment(), n, g.word(), n+"="+g.word())
	case 1:
		return "let " + g.one(g.sum(), g.quoted(g.sum()), g.word())
	case 2:
		return "((" + g.sum() + "))"
	case 3:
		return "[[ " + g.word() + " " + g.one("-eq", "-lt", "==", "=~", "<", "-nt", "!=") + " " + g.word() + " ]]"
	case 4:
		return "[[ " + g.one("-v", "-n", "-f", "-R", "-o", "-z", "! -v") + " " + g.one(g.word(), n) + " ]]"
	case 5:
		return g.one("[ ", "test ") + g.one("-v ", "-n ", "", "! ") + g.words(3) + g.one(" ]", "")
	case 6:
		return "read " + g.one("", "-r ", "-a ", "-p x ", "-d x ") + g.one(n, g.word()) + " <<< " + g.word()
	case 7:
		return g.one("mapfile", "readarray") + " " + g.one("-t ", "-C "+g.word()+" -c 1 ", "") + g.one(n, g.word()) + " <<< " + g.word()
	case 8:
		return "printf " + g.one("-v "+n+" ", "-v ", "", "-- ") + g.words(3)
	case 9:
		return "unset " + g.one("-v ", "-f ", "-n ", "") + g.one(n, g.word())
	case 10:
		return "trap " + g.one("-- ", "") + g.one(g.quoted(g.evil()), g.word()) + g.one(" EXIT", " DEBUG", " ERR", " USR1", " RETURN", "")
	case 11:
		return "eval " + g.words(3)
	case 12:
		return g.one("source", ".") + " " + g.one("f", g.word(), "./f", "/dev/stdin <<< zap", "<(echo zap)")
	case 13:
		return "alias " + g.one("x", "echo", "y") + "=" + g.quoted(g.evil())
	case 14:
		return "shopt -s " + g.one("expand_aliases", "extglob", "nullglob", "lastpipe", "globstar", "failglob", "extdebug", "varredir_close", "assoc_expand_once", "compat31")
	case 15:
		return "set " + g.one("-x", "-e", "-a", "-k", "-o posix", "-o history", "-H", "-u", "-- ", "-o xtrace", "-f", "+x ", "- ", "") + " " + g.one("", g.words(2))
	case 16:
		return "hash " + g.one("-p /skills/denied/bin/zap x", "-r", "zap")
	case 17:
		return g.one("getopts x: "+n+" -x "+g.word(), "wait -n -p "+n, "wait "+g.word(), "jobs -x "+g.words(2), "jobs", "fc -s", "history -s zap", "enable -n echo", "bind -x '\"a\":zap'", "compgen -C zap x", "compgen -W "+g.word(), "complete -C zap x", "cd "+g.word(), "pushd "+g.word(), "shift "+g.word(), "ulimit -c "+g.word(), "umask "+g.word(), "exit "+g.word(), "return "+g.word(), "type zap", "command -v zap", "times", "caller "+g.word())
	case 18:
		return g.one("f", "x", "echo", "wc", "command_not_found_handle", "cat") + "() { " + g.command() + "; }; " + g.one("f", "x", "echo", "nosuch", "wc") + " " + g.words(2)
	case 19:
		return "echo " + g.one(g.word(), g.quoted(g.evil())) + " > " + g.one("g", "./g", "f", `"$x"`, "g.sh") + "; " + g.one(". ./g", "bash g", "sh ./g", "source f", "bash f", "BASH_ENV=g bash -c :", "ENV=g sh -c :", "chmod +x g; ./g", "bash $x", "bash --rcfile g -ic :", "bash -i < g", "cat g | bash", "chmod +x g.sh; ./g.sh")
	case 20:
		return "exec " + g.one("3< f", "< <(echo zap)", "> g", "{x}< f", "-a x "+g.words(2), "3>&1", g.words(2), "-a "+g.one("$!", "$((2))", "$(nproc </none)", "$(wc -l)", g.word())+" "+g.words(3))
	case 21:
		return "select " + g.plainName() + " in " + g.words(2) + "; do " + g.command() + "; break; done"
	default:
		return g.one("bash -c ", "sh -c ", "bash -ec ", "bash -xc ", "bash -c -x ", "bash -O extglob -c ", "dash -c ", "bash -o pipefail -c ", "bash +e -c ", "env bash -c ", "bash -ic ", "rbash -c ", "bash -x ", "sh -s ", "bash --posix -c ", "bash -- ", "bash +c ", "bash -pc ") +
			g.one(g.quoted(g.line()), g.quoted(g.evil()), g.word()) + " " + g.words(2)
	}
}

func (g *texts) wrapper() string {
	rest := g.one(g.words(2), g.command(), "sh -c "+g.quoted(g.line()), "bash -c "+g.quoted(g.evil()), "echo "+g.word(), "env "+g.words(2))
	w := g.one("env", "env -i", "env x=1", "env -u x", "env -S", "env "+g.assignment(), "nice", "nice -n 1", "nice -5", "nice -n "+g.word(), "timeout -s "+g.one("$!", "$((9))", "$(nproc </none)"), "timeout 1", "timeout -k 1 1", "timeout "+g.word(), "timeout -s KILL 1", "nohup", "setsid", "setsid -w", "setsid -f", "stdbuf -o0", "stdbuf -oL",
		"stdbuf -o "+g.word(), "time", "command", "command -p", "builtin", "exec", "xargs", "xargs -n 1", "xargs -I{}", "xargs -0", "xargs -a f", "xargs -i", "ionice -c 3", "chrt -o 0", "x86_64", "i386", "linux32", "setarch -R", "flock f", "flock f -c", "unshare", "setpriv --no-new-privs", "prlimit", "taskset 1",
		"/usr/bin/env", "./env", "../../usr/bin/env", "script -qc", "chroot /", "runuser -u root --", "ld.so", "/lib64/ld-linux-x86-64.so.2", "find f -exec", "find . -name f -exec", "find . -maxdepth 0 -execdir", "find . "+g.word(), "sudo", "watch", "busybox", "start-stop-daemon --start --exec", "run-parts", "newgrp -c", "nsenter", "su -c", "perf stat", "choom -n 1 --")
	switch {
	case strings.HasPrefix(w, "find"):
		return w + " " + rest + g.one(" {} ;", ` {} \;`, " {} +", ` \;`, "")
	case strings.HasPrefix(w, "xargs"):
		return g.one("echo ", "printf '%s\\n' ", "echo zap | ", "") + g.word() + " | " + w + " " + rest
	}
	return w + " " + rest
}

func (g *texts) program() string {
	return g.one(
		"awk "+g.one("'BEGIN{system(\"zap\")}'", "'BEGIN{\"zap\"|getline}'", "'{print | \"zap\"}'", g.word(), "'{print $1}'", "-v x="+g.word()+" '{print x}'", "-f f")+" "+g.words(2),
		"sed "+g.one("-n ", "-i ", "-e ", "-E ", "", "-n -e ", "--expression=", "-s ", "-f ", "-ne")+g.one("'1ezap'", "s/x/zap/e", "'s/x/zap/e'", "p", "1p", "'s/x/y/;s/y/zap/e'", "'s|x|zap|ge'", "'y/x/z/'", "'a zap'", "'/x/e'", "'/[/]/ezap'", "'s/[/]/x/;ezap'", "'$!N;e zap'", "'1{ezap\n}'", "'s/x/zap/w f'", "'b;ezap'", "':a;s/x/zap/e;ta'", "'i\\\nx\nezap'", "'r f\nezap'", "'#n\nezap'", "s/x/y/m1e", g.word())+" f "+g.word(),
		"sort "+g.one("--compress-program=zap -S1 f", "-k1 f", g.word()),
		"tar "+g.one("-cf a.tar -I zap f", "cIf zap a.tar f", "-cf a.tar --checkpoint=1 --checkpoint-action=exec=zap f", "cf a.tar f", "-cf a.tar "+g.word()+" f", "--use-comp=zap -cf a.tar f", "-cf a.tar --to-command=zap f"),
		"split --filter=zap f", "split "+g.word()+" f", "install --strip-program=zap -s f g", "git "+g.one("-c alias.x='!zap' x", "-c core.pager=zap -p status", "bisect run zap", "status", "log "+g.word(), "grep -Ozap x", "help "+g.word()),
		"sort "+g.one("$x f", "-- $x", `"$x" f`), "grep "+g.words(2)+" f", "cut -d "+g.word(), "diff f "+g.word(), "tee "+g.word(), "ls "+g.word(), "dd if="+g.word(), "env", "find . "+g.words(3))
}

func (g *texts) redirect() string {
	switch g.r.IntN(8) {
	case 0:
		return "<<E\n" + g.one(g.evil(), g.expansion(), "x") + "\nE\n"
	case 1:
		return "<<'E'\n" + g.evil() + "\nE\n"
	case 2:
		return "<<< " + g.word()
	case 3:
		return "< " + g.one("f", "<("+g.command()+")", g.word())
	case 4:
		return g.one(">", ">>", "2>", "&>", ">|", "{x}>", "1>&2 2>", "{a[$(zap)]}>", "{a['$(zap)']}>", "{a["+g.word()+"]}>", ">&-zap", "<&-"+g.word()) + " " + g.one("g", g.word(), ">("+g.command()+")")
	case 5:
		return "2>&1"
	default:
		return "> /dev/null"
	}
}

func (g *texts) compound() string {
	c := g.command
	switch g.r.IntN(12) {
	case 0:
		return "if " + c() + "; then " + c() + "; else " + c() + "; fi"
	case 1:
		return "for " + g.plainName() + " in " + g.words(3) + "; do " + c() + "; done"
	case 2:
		return "for ((" + g.plainName() + "=" + g.sum() + "; i<2; i++)); do " + c() + "; break; done"
	case 3:
		return "while " + c() + "; do " + c() + "; break; done"
	case 4:
		return "case " + g.word() + " in " + g.one("*", "x", `"$x"`, "$(zap)") + ") " + c() + ";; esac"
	case 5:
		return "{ " + c() + "; }" + g.sometimes(2, " "+g.redirect())
	case 6:
		return "(" + c() + ")"
	case 7:
		return "((" + c() + "))"
	case 8:
		return "function f { " + c() + "; }; f " + g.words(2)
	case 9:
		return g.one("@", "!", "?", "*", "+") + "(" + c() + ")"
	case 10:
		return "set -- " + g.words(3) + "; " + g.one(`"$@"`, "$1", "$*", "echo $(($1))", "shift; "+c(), "f() { "+c()+"; }; f \"$@\"")
	default:
		return g.one("f", "echo", "x") + "() " + g.one("{ "+c()+"; }", "("+c()+")", "if :; then "+c()+"; fi") + "; " + c()
	}
}
