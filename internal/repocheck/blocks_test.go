package repocheck

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of commands in a document.
//
// A block is marked sh (a script, run as a whole) or console (lines that begin
// with "$ " are commands, the rest is their output). The mark can be followed
// by not-run reason="…", for commands that need a key or change the machine;
// ci, for the commands that .ci/fresh-clone runs in a clone without a network;
// and exit=N, for a last command that exits with another code than 0.
type Block struct {
	Path   string
	Line   int    // of the opening fence
	Kind   string // sh or console
	Reason string // why it is not run; "" means that it is run
	CI     bool
	Exit   int
	Text   string
}

// Command is one command of a block and what it should print.
type Command struct {
	Text string
	Want string // "" means that the document shows no output
	Exit int
}

var (
	fence     = regexp.MustCompile("^( {0,3})(```+|~~~+)\\s*(.*)$")
	blockInfo = regexp.MustCompile(`^(not-run reason="([^"]+)"|ci|exit=(\d+))?$`)
	shells    = map[string]bool{"sh": true, "console": true, "bash": false, "shell": false, "zsh": false, "shell-session": false}
)

// Blocks finds the command blocks of a Markdown document.
func Blocks(p string, doc []byte) ([]Block, []Finding) {
	var blocks []Block
	var out []Finding
	var open *Block
	var mark string
	var text []string
	for i, line := range strings.Split(string(doc), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case mark == "" && m != nil:
			mark, text = m[2], nil
			b, why := parseBlock(p, i+1, m[3])
			if why != "" {
				out = append(out, Finding{p, i + 1, why})
			}
			open = b
		case mark != "" && m != nil && strings.HasPrefix(m[2], mark) && m[3] == "":
			if open != nil {
				open.Text = strings.Join(text, "\n")
				blocks = append(blocks, *open)
			}
			open, mark = nil, ""
		case mark != "":
			text = append(text, line)
		}
	}
	if mark != "" {
		out = append(out, Finding{p, 0, "a fenced block is not closed"})
	}
	return blocks, out
}

// parseBlock reads a fence's info string; nil means that it is not a block of
// commands.
func parseBlock(p string, line int, info string) (*Block, string) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(info), " ")
	run, isShell := shells[kind]
	switch {
	case kind == "":
		return nil, "name the block's language; text where it is none"
	case !isShell:
		return nil, ""
	case !run:
		return nil, "mark commands sh or console, so that they are run"
	}
	m := blockInfo.FindStringSubmatch(strings.TrimSpace(rest))
	if m == nil {
		return nil, fmt.Sprintf("%q: after %s may stand ci, exit=N or not-run reason=\"…\"", rest, kind)
	}
	b := &Block{Path: p, Line: line, Kind: kind, Reason: m[2], CI: m[1] == "ci"}
	if m[3] != "" {
		if _, err := fmt.Sscan(m[3], &b.Exit); err != nil {
			return nil, err.Error()
		}
	}
	return b, ""
}

// Commands splits a block into what is run at once.
func (b Block) Commands() []Command {
	if b.Kind == "sh" {
		return []Command{{Text: b.Text, Exit: b.Exit}}
	}
	var out []Command
	more := false
	for line := range strings.SplitSeq(b.Text, "\n") {
		switch cmd, ok := strings.CutPrefix(line, "$ "); {
		case ok:
			out = append(out, Command{Text: cmd})
		case len(out) == 0:
			continue
		case more:
			out[len(out)-1].Text += "\n" + strings.TrimPrefix(line, "> ")
		default:
			out[len(out)-1].Want += line + "\n"
			continue
		}
		more = strings.HasSuffix(out[len(out)-1].Text, `\`)
	}
	if len(out) > 0 {
		out[len(out)-1].Exit = b.Exit
	}
	return out
}

// Matches compares the output of a command with the document. An ellipsis (…)
// stands for any text within a line, and alone on a line for any lines. White
// space at the ends of lines and blank lines at the end are not compared. A
// document without output matches any output.
func Matches(want, got string) bool {
	if strings.TrimSpace(want) == "" {
		return true
	}
	var re strings.Builder
	re.WriteString(`^`)
	for line := range strings.SplitSeq(strings.TrimRight(want, " \t\n"), "\n") {
		line = strings.TrimRight(line, " \t")
		if strings.TrimSpace(line) == "…" {
			re.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				re.WriteString(`[^\n]*?`)
			}
			re.WriteString(regexp.QuoteMeta(part))
		}
		re.WriteString(`[ \t]*\n`)
	}
	re.WriteString(`\s*$`)
	return regexp.MustCompile(re.String()).MatchString(strings.TrimRight(got, " \t\n") + "\n")
}
