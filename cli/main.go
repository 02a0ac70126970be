// Package cli implements the metier command: one file per command. It parses flags and prints what
// package engine returns. Main takes all its inputs as arguments, so a test can run the whole
// program in its own process.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"metier/config"
	"metier/engine"
	"metier/fetch"
	"metier/internal/diagcodes"
	"metier/internal/egress"
	"metier/signature"
	"metier/skillroots"
)

// IO is the input and output of the program.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Err is a terminal: progress may be drawn
	Dir      string
	// Verifiers returns verifiers of signatures of skills, as in engine.Options; nil: those for SSH and minisign.
	Verifiers func(sigstoreRoots []string) ([]signature.Verifier, error)
}

// System is the IO of the process.
func System() IO {
	dir, _ := os.Getwd() // "" makes relative paths fail by name later
	return IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd())), Dir: dir}
}

// app is one invocation.
type app struct {
	IO
	env        config.Env
	json       bool
	completing bool // changes no file
	verbose    bool // print each finding about a skill
	now        func() time.Time
	after      func(time.Duration) <-chan time.Time // waits before a model call is tried again; nil: time.After
	exit       func(int)                            // of the second interrupt
	notify     func(chan<- os.Signal) (stop func()) // brings interrupts
	cancel     context.CancelCauseFunc
	asking     sync.Mutex // one question at a time
	keyboard   keyboard
	found      []*engine.Discovery                       // closed at the end of the command
	has        func(program string) bool                 // is on this machine
	org        string                                    // folder of the machine's skills
	egress     func(egress.Rules) (*egress.Proxy, error) // of programs; nil: public addresses alone
	web        fetch.Options                             // how pages are fetched; tests have an internet of their own
	app        func() *engine.Engine
	current    atomic.Pointer[cobra.Command] // nil before one runs
	working    atomic.Pointer[result]        // the run that this command works on; nil before there is one
}

// Main runs one command and returns the exit code: 0 success, 1 failure, 2 incorrect usage, 3
// denied, 4 not found, 5 drift, 6 no sandbox, 7 waiting for approval, 130 interrupted. The first
// interrupt stops the work gracefully, the second one immediately.
func Main(ctx context.Context, args, env []string, std IO) int {
	return newApp(env, std).main(ctx, args)
}

func newApp(env []string, std IO) *app {
	a := &app{IO: std, env: config.NewEnv(env, std.Dir), now: time.Now, exit: os.Exit, notify: signals, org: skillroots.OrgFolder}
	a.app = sync.OnceValue(a.newEngine)
	a.has = a.onPath
	a.Out, a.Err = &output{Writer: std.Out}, &together{w: std.Err}
	a.dropRelativeFolders()
	a.checkLogLevel()
	return a
}

// dropRelativeFolders ignores user folders that are not absolute paths, as the XDG Base Directory
// Specification requires. They would be in the working folder, and anyone could have written what
// is read there as the user's own.
func (a *app) dropRelativeFolders() {
	for _, k := range []string{"HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		if v := a.env.Get(k); v != "" && !filepath.IsAbs(v) {
			delete(a.env.Vars, k)
			fmt.Fprintf(a.Err, "note: %s is ignored: %q is not an absolute path\n", k, v)
		}
	}
}

func (a *app) main(ctx context.Context, args []string) int {
	ctx, a.cancel = context.WithCancelCause(ctx)
	defer a.cancel(nil)
	defer a.interrupts(ctx)()
	a.completing = len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	root := a.root()
	root.SetArgs(withoutHelp(root, args))
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	a.json = asksJSON(args) // an error may come before the flag is read
	err := a.printed(root.ExecuteContext(ctx))
	a.engine().Close()
	a.hangUp()
	if err == nil {
		return exitDone
	}
	return a.report(ctx, err)
}

// help prints the help of a command that only groups others.
func (a *app) help(c *cobra.Command, _ []string) error {
	if a.json {
		return usage(c, fmt.Errorf("%s needs a command", nameOf(c)))
	}
	return c.Help()
}

// withoutHelp removes the help flag after a word that is not a command. Otherwise, the help of
// another command is printed instead of an error.
func withoutHelp(root *cobra.Command, args []string) []string {
	c, rest, err := root.Find(args)
	if err != nil || !c.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "--help" || s == "-h" })
}

func asksJSON(args []string) bool {
	for _, s := range args {
		if s == "--json" || s == "--json=true" || s == "--" {
			return s != "--"
		}
	}
	return false
}

// interrupts makes the first Ctrl-C cancel the context and the second one end the process.
func (a *app) interrupts(ctx context.Context) (stop func()) {
	ch := make(chan os.Signal, 2)
	stop = a.notify(ch)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ch:
			case <-ctx.Done():
				if n == 0 {
					return
				}
				<-ch
			}
			if n > 0 {
				a.say(a.stopped())
				a.exit(exitInterrupted)
				return
			}
			if !a.json {
				fmt.Fprintln(a.Err, "metier: stopping; interrupt again to stop immediately")
			}
			a.cancel(errInterrupted)
		}
	}()
	return stop
}

// signals relays the signals that ask the process to stop.
func signals(ch chan<- os.Signal) (stop func()) {
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return func() { signal.Stop(ch) }
}

var errInterrupted = errors.New("interrupted")

// stopped returns the error of the second interrupt.
func (a *app) stopped() *problem {
	p := &problem{exit: exitInterrupted, code: "interrupted", err: errors.New("stopped immediately")}
	if r := a.working.Load(); r != nil {
		p.hint = "the record is kept; continue with: " + a.again(*r)
	}
	return p
}

// root builds the command tree.
func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:           "metier",
		Short:         "Run agents with Agent Skills, and prove what happened",
		Long:          "metier runs AI agents with Agent Skills. One policy checks every tool call,\nscripts run in a sandbox, and each run leaves a record that you can verify.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          a.help,
	}
	c.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document to standard output, and errors as JSON to standard error")
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", min(max(a.columns(), 80), 120))
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages", wrapped))
	c.SetFlagErrorFunc(flagUsage)
	c.AddGroup(&cobra.Group{ID: "work", Title: "Run:"}, &cobra.Group{ID: "skills", Title: "Skills:"}, &cobra.Group{ID: "install", Title: "Install skills:"}, &cobra.Group{ID: "author", Title: "Write and check skills:"},
		&cobra.Group{ID: "proof", Title: "Inspect and verify:"}, &cobra.Group{ID: "setup", Title: "Set up:"})
	c.AddCommand(a.runCommand(), a.execCommand(), a.mcpCommand(), a.sandboxCommand(), a.runsCommand(), a.auditCommand(), a.profileCommand(), a.subagentsCommand(), a.doctorCommand(), a.versionCommand())
	c.AddCommand(a.listCommand(), a.showCommand(), a.explainCommand(), a.searchCommand(), a.enableCommand(), a.disableCommand(), a.trustCommand())
	c.AddCommand(a.addCommand(), a.installCommand(), a.updateCommand(), a.removeCommand(), a.verifyCommand(), a.adoptCommand(), a.syncCommand(), a.packCommand(), a.signCommand(), a.publishCommand(), a.serveIndexCommand())
	c.AddCommand(a.initCommand(), a.validateCommand(), a.scanCommand(), a.fixCommand(), a.readPropertiesCommand(), a.toPromptCommand(), a.harnessCommand())
	c.SetHelpCommandGroupID("setup")
	c.SetCompletionCommandGroupID("setup")
	a.namesCommands(c)
	argsAreUsage(c)
	a.noteCurrent(c)
	a.fitHelp(c)
	return c
}

// fitHelp breaks the lines of help to the width of the terminal, at most 80 columns. The help of
// flags is broken when it is printed.
func (a *app) fitHelp(c *cobra.Command) {
	width := 80
	if n := a.columns(); n > 0 {
		width = min(n, width)
	}
	c.Long = paragraphs(c.Long, width)
	if a.completing { // completion prints usages as they are
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	}
	for _, sub := range c.Commands() {
		a.fitHelp(sub)
	}
}

// surface is the recorded origin of runs started from the command line.
const surface = "cli"

// engine returns the engine of this invocation.
func (a *app) engine() *engine.Engine { return a.app() }

func (a *app) newEngine() *engine.Engine {
	return engine.New(a.env, engine.Options{Version: buildVersion(), Now: a.now, After: a.after, Org: a.org, Egress: a.egress, Fetch: a.web, Logger: a.logging, Notify: a.notice, Fetched: a.fetching, Verifiers: a.Verifiers, ReadOnly: a.completing})
}

// notice prints a notice. With --json, notices are part of the result.
func (a *app) notice(n engine.Notice) {
	if n.Severity != engine.Note || !a.json {
		fmt.Fprintln(a.Err, noticeLine(n))
	}
}

// noticeLine formats a notice as one line: its kind, its text, and its code.
func noticeLine(n engine.Notice) string {
	text := oneLine(asFlags(n.Text))
	switch n.Code {
	case engine.CodeDrift:
		return "drift: " + text
	case engine.CodeHarness:
		return "harness " + text
	case engine.CodeMoved:
		return "metier: " + text
	}
	if _, diagnostic := diagcodes.Of(n.Code); n.Code == "" || diagnostic && strings.Contains(text, ": "+n.Code+": ") {
		return "note: " + text
	}
	return "note: " + text + " [" + n.Code + "]"
}

// hangUp stops the MCP servers at the end of a command.
func (a *app) hangUp() {
	for _, d := range a.found {
		if err := d.Close(); err != nil {
			a.logger().Warn("a server did not end well", "err", err)
		}
	}
}
