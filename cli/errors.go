package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"metier"
	"metier/internal/errorcodes"
	"metier/internal/nearest"
	"metier/internal/termtext"
	"metier/settings"
)

// The exit codes. They are a stable interface (docs/CLI.md).
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitDenied      = 3
	exitNotFound    = 4
	exitDrift       = 5
	exitSandbox     = 6
	exitWaiting     = 7
	exitInterrupted = 130
)

// problem is an error as the command line shows it: an exit code, a machine-readable code, and a
// hint.
type problem struct {
	exit  int
	code  string
	field string // the field of the request at fault, or ""
	hint  string
	err   error
	// silent means that the command has already printed everything.
	silent bool
}

func (p *problem) Error() string { return p.err.Error() }

// plainOps are the operations of library errors that say nothing about a command.
var plainOps = []string{"exec", "find", "lease", "load", "look", "mcp inspect", "path", "run", "say", "show", "subagents", "use"}

// text returns the message for the user.
func (p *problem) text() string {
	text := p.err.Error()
	if e, ok := p.err.(*metier.Error); ok && slices.Contains(plainOps, e.Op) {
		return strings.TrimPrefix(text, e.Op+": ")
	}
	return text
}

func (p *problem) Unwrap() error { return p.err }

// usage returns an error for incorrect usage of a command.
func usage(c *cobra.Command, err error) error {
	return &problem{exit: exitUsage, code: "usage", err: err, hint: fmt.Sprintf("see '%s --help'", c.CommandPath())}
}

// nameOf returns the words of a command after the program's name, which errors start with anyway.
func nameOf(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// pathWords are the arguments in Use lines that are paths.
var pathWords = []string{"PATH", "PATH...", "DIR"}

// argsAreUsage turns errors about the number or names of arguments into usage errors whose hint is
// the command's help.
func argsAreUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		paths := slices.ContainsFunc(strings.Fields(c.Use), func(w string) bool { return slices.Contains(pathWords, w) })
		c.Args = func(c *cobra.Command, args []string) error {
			if paths && slices.Contains(args, "") {
				return wrong("usage", "specify a path; an unset shell variable expands to an empty argument", "%s: an argument is empty", nameOf(c))
			}
			err := check(c, args)
			if _, worded := errors.AsType[*problem](err); err == nil || worded {
				return err
			}
			return usage(c, misplaced(c, args))
		}
	}
	for _, sub := range c.Commands() {
		argsAreUsage(sub)
	}
}

// misplaced describes what is wrong with arguments, based on the command's Use line.
func misplaced(c *cobra.Command, args []string) error {
	takes := slices.DeleteFunc(strings.Fields(c.Use)[1:], func(w string) bool { return w == "[flags]" })
	switch {
	case len(args) > len(takes) && c.HasSubCommands():
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), nearest.Hint(args[0], names))
	case len(args) > len(takes):
		return fmt.Errorf("unexpected argument %q", args[len(takes)])
	}
	missing := takes[len(args):]
	for i, w := range missing {
		missing[i] = cmp.Or(argumentWords[w], w)
	}
	return fmt.Errorf("%s needs %s", nameOf(c), strings.Join(missing, " and "))
}

// argumentWords are the words of Use lines, as error messages write them.
var argumentWords = map[string]string{"NAME": "a name", "PATH": "a path", "PATH...": "at least one path", "DIR": "a folder", "FILE": "a file", "RUN": "a run", "QUERY...": "a query"}

var flagKinds = map[string]string{"int": "a whole number", "int64": "a whole number", "uint": "a whole number from 0", "uint64": "a whole number from 0", "duration": "a duration such as 90s or 10m", "bool": "true or false"}

// namesCommands makes help and completion reject a word that is not a command.
func (a *app) namesCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.RunE = a.help
		case "help":
			c.Args = func(c *cobra.Command, args []string) error {
				found, rest, err := c.Root().Find(args)
				if err == nil && len(rest) == 0 {
					return nil
				}
				return usage(found, misplaced(found, rest))
			}
		}
	}
}

// flagUsage returns the error for an invalid flag: what its value should be, or what an unknown
// flag may have meant.
func flagUsage(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if kind, ok := flagKinds[bad.GetFlag().Value.Type()]; ok {
			return usage(c, fmt.Errorf("--%s %s is not %s", bad.GetFlag().Name, termtext.Quote(bad.GetValue()), kind))
		}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return usage(c, err)
	}
	if unknown.GetSpecifiedName() == "version" {
		return wrong("usage", "use: "+c.Root().Name()+" version", "%w", err)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Names(unknown.GetSpecifiedName(), names); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return usage(c, err)
}

// wrong returns the error for an invalid value given by the user.
func wrong(code, hint, format string, args ...any) error {
	return &problem{exit: exitUsage, code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// exitOf maps kinds to exit codes.
func exitOf(k metier.Kind) int {
	switch k {
	case metier.Invalid:
		return exitUsage
	case metier.Denied:
		return exitDenied
	case metier.NotFound:
		return exitNotFound
	case metier.Drift:
		return exitDrift
	case metier.Approval:
		return exitWaiting
	}
	return exitFailed
}

// problemOf converts any error into a problem.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*metier.Error](err); ok {
		exit := exitOf(e.Kind)
		if e.Code == "sandbox_unavailable" {
			exit = exitSandbox
		}
		code := metier.CodeOf(e)
		return &problem{exit: exit, code: code, field: e.Field, hint: cmp.Or(e.Hint, fixOf(code)), err: err}
	}
	if e, ok := errors.AsType[*settings.Error](err); ok {
		return &problem{exit: exitUsage, code: e.Code, hint: e.Hint(), err: err}
	}
	return &problem{exit: exitFailed, code: "failed", err: err}
}

// fixOf returns what docs/ERRORS.md says to do about a code, as a hint.
func fixOf(code string) string {
	if code == "skill_not_found" {
		return "'metier list --all' shows every skill, and why some cannot be used"
	}
	known, _ := errorcodes.Of(code)
	if known.Fix == "" {
		return ""
	}
	return strings.ToLower(known.Fix[:1]) + strings.TrimSuffix(known.Fix[1:], ".")
}

// report prints an error and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	p := problemOf(err)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		p.exit = exitInterrupted
		if !p.silent && (errors.Is(err, context.Canceled) || p.code == "failed") {
			p = &problem{exit: exitInterrupted, code: "interrupted", err: errInterrupted}
		}
	}
	if p.silent {
		return p.exit
	}
	a.say(p)
	return p.exit
}

// say writes a problem to standard error. Lines after the first are indented, so that quoted text
// cannot be mistaken for metier's own lines.
func (a *app) say(p *problem) {
	if a.json {
		body := map[string]string{"code": p.code, "message": asFlags(p.text())}
		if p.hint != "" {
			body["hint"] = a.placed(asFlags(p.hint))
		}
		if flag := flagOf[p.field]; flag != "" {
			body["flag"] = flag
		}
		b, _ := json.Marshal(map[string]any{"error": body}) // strings only
		fmt.Fprintf(a.Err, "%s\n", harmless(b))
		return
	}
	indent := strings.NewReplacer("\n", "\n  ")
	fmt.Fprintf(a.Err, "metier: %s [%s]\n", indent.Replace(printable(asFlags(p.text()))), p.code)
	if p.hint != "" {
		fmt.Fprintf(a.Err, "  hint: %s\n", indent.Replace(printable(a.placed(asFlags(p.hint)))))
	}
}

// printable removes control, direction and invisible characters of untrusted text, except line
// breaks and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if hides(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// hides reports whether a terminal interprets a character instead of showing it, or shows nothing.
// Joiners and variation selectors that scripts and emoji need are shown.
func hides(r rune) bool {
	return termtext.Escaped(r) && !strings.ContainsRune("\u200c\u200d\ufe0e\ufe0f", r)
}
