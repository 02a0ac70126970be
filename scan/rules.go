package scan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Class is the kind of attack that a rule finds.
type Class string

// The classes.
const (
	Injection    Class = "injection"
	Exfiltration Class = "exfiltration"
	Credentials  Class = "credentials"
	Destruction  Class = "destruction"
	Execution    Class = "execution"
	Persistence  Class = "persistence"
	Obfuscation  Class = "obfuscation"
	Characters   Class = "characters"
	Archives     Class = "archives"
	Downloads    Class = "downloads"
	Scope        Class = "scope"
	Shadowing    Class = "shadowing"
)

// Rule describes a rule.
type Rule struct {
	ID         string     `json:"id"`
	Class      Class      `json:"class"`
	Severity   Severity   `json:"severity"`
	Confidence Confidence `json:"confidence"` // in a script or in an instruction; elsewhere it is lower
	Title      string     `json:"title"`
	Why        string     `json:"why"`
	Fix        string     `json:"fix"`
}

// rule is a rule with what it matches. A rule without a matcher is applied where its ID is used.
type rule struct {
	Rule
	prose   *prose
	command *command
	code    *code
	bad     []sample // each matches
	good    []sample // none matches
}

// sample is a file of a skill.
type sample struct{ file, text string }

// prose matches sentences by their words.
type prose struct {
	says   []concept // all of them occur; the first one is where the finding is
	within int       // sentences between the first and the last concept; 0: in one sentence
	order  bool      // the first concept begins an instruction
	next   bool      // the second concept is the word after the first one
	tight  bool      // all concepts after the first one are in one sentence
	hidden bool      // only in HTML comments
	not    []concept // none of them occurs in the last sentence

	mask, without uint64
}

// command matches a command of shell code.
type command struct {
	run      string // names of programs; empty: any
	args     string // a regular expression for the words after the name
	writes   string // a regular expression for a file that its output is written to
	gets     label  // what it reads
	does     deed   // what it does with it
	silent   bool   // it runs in the background, without output, under a condition
	computed bool   // the name of its program is put together
	twin     bool   // it runs in the background and reads the output of the same command

	programs   map[string]bool
	arguments  *regexp.Regexp
	writesFile *regexp.Regexp
}

// code matches a statement of Python, JavaScript, or PowerShell code.
type code struct {
	key  string // words of which the statement has one, separated by spaces
	text string // a regular expression for the statement
	gets label  // what the statement uses
	does deed   // what it does with it
	also string // a regular expression that another statement of the file matches

	keys      []string
	statement *regexp.Regexp
	other     *regexp.Regexp
}

// rules are all rules, grouped by class.
var rules = slices.Concat(injectionRules, exfiltrationRules, executionRules, destructionRules, windowsRules, obfuscationRules, fileRules, unreadRules, scopeRules)

// compiled are the rules by what they match.
type compiled struct {
	byID                   map[string]*rule
	prose, commands, codes []*rule
}

var table = compile(rules)

func compile(rules []rule) compiled {
	c := compiled{byID: map[string]*rule{}}
	for i := range rules {
		r := &rules[i]
		c.byID[r.ID] = r
		if p := r.prose; p != nil {
			for _, x := range p.says {
				p.mask |= 1 << x
			}
			for _, x := range p.not {
				p.without |= 1 << x
			}
			c.prose = append(c.prose, r)
		}
		if x := r.command; x != nil {
			x.programs = set(x.run)
			x.arguments, x.writesFile = pattern(x.args), pattern(x.writes)
			c.commands = append(c.commands, r)
		}
		if x := r.code; x != nil {
			x.keys = strings.Fields(x.key)
			x.statement, x.other = pattern(x.text), pattern(x.also)
			c.codes = append(c.codes, r)
		}
	}
	return c
}

func pattern(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	return regexp.MustCompile(text)
}

// Rules returns all rules, sorted by ID.
func Rules() []Rule {
	out := make([]Rule, 0, len(rules))
	for _, r := range rules {
		out = append(out, r.Rule)
	}
	slices.SortFunc(out, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Version identifies the rules: it changes when one of them does.
func Version() string { return version }

var version = func() string {
	sum := sha256.New()
	for _, r := range rules {
		fmt.Fprintf(sum, "%q\n", r.Rule)
		if p := r.prose; p != nil {
			fmt.Fprintln(sum, p.says, p.within, p.order, p.next, p.tight, p.hidden, p.not)
		}
		if c := r.command; c != nil {
			fmt.Fprintf(sum, "%q %q %q %d %d %t %t %t\n", c.run, c.args, c.writes, c.gets, c.does, c.silent, c.twin, c.computed)
		}
		if c := r.code; c != nil {
			fmt.Fprintf(sum, "%q %q %q %d %d\n", c.key, c.text, c.also, c.gets, c.does)
		}
	}
	for c := range conceptCount {
		fmt.Fprintln(sum, vocabulary[c])
	}
	return "1-" + hex.EncodeToString(sum.Sum(nil))[:12]
}()
