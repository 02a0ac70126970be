package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"metier/config"
	"metier/internal/nearest"
	"metier/mcp/install"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

type mcpInstallFlags struct {
	name           string
	url, tokenEnv  string
	project, write bool
	yes            bool
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var f mcpInstallFlags
	var names []string
	for _, m := range install.Clients() {
		names = append(names, m.Name)
	}
	c := &cobra.Command{
		Use:   "install CLIENT [flags] [-- ARGS...]",
		Short: "Print or write a client's configuration entry for 'metier mcp'",
		Long: `Install prints the entry that starts this program as a skill server, and the path
of the client's configuration file. With --write, it asks for confirmation, and
then adds the entry to that file or replaces the entry with the same name. In
Codex's file, it does not replace entries. The rest of the file stays unchanged.
Arguments after -- are passed to 'metier mcp', with paths made absolute. Clients start
the server in a folder of their choice: to choose the folder in which scripts work
and sessions are recorded, add -- --workspace DIR.

With --url, the entry is for a server that is already running
('metier mcp --http ADDR'). If the server requires a token, use --token-env to specify
the client's environment variable that contains it. The token itself is never
written to the file.

Clients: ` + strings.Join(names, ", ") + ".",
		Example: `  metier mcp install claude-code
  metier mcp install cursor --project --write
  metier mcp install codex -- --skills-root ~/skills
  metier mcp install gemini --url http://127.0.0.1:8931/mcp --token-env SKILLS_TOKEN`,
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); len(args) == 0 || n == 0 || n < 0 && len(args) > 1 || n > 1 {
				return wrong("usage", "clients: "+strings.Join(names, ", "), "install needs one client, with the server's arguments after --")
			}
			return nil
		},
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			i := slices.IndexFunc(install.Clients(), func(m install.Client) bool { return m.Name == args[0] })
			if i < 0 {
				return wrong("client_unknown", "clients: "+strings.Join(names, ", "), "there is no client %q%s", args[0], nearest.Hint(args[0], names))
			}
			args, err := a.serverArgs(c.Parent(), args[1:])
			if err != nil {
				return err
			}
			return a.mcpInstall(c.Context(), f, install.Clients()[i], args)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.name, "as", "skills", "`name` of the server in the client's configuration")
	fl.StringVar(&f.url, "url", "", "`address` of a running server, such as http://127.0.0.1:8931/mcp")
	fl.StringVar(&f.tokenEnv, "token-env", "", "with --url: environment `variable` that contains the client's token")
	fl.BoolVar(&f.project, "project", false, "use the project's configuration file instead of the user's")
	fl.BoolVar(&f.write, "write", false, "write the entry to the file, after asking for confirmation")
	fl.BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	return c
}

// serverArgs checks arguments with the flags of the server's command. It makes paths absolute, because
// a client can start the server in any folder.
func (a *app) serverArgs(c *cobra.Command, args []string) (out []string, err error) {
	c.InheritedFlags() // adds them to Flags
	fl := c.Flags()
	err = fl.ParseAll(args, func(f *pflag.Flag, value string) error {
		out = append(out, "--"+f.Name+"="+value)
		return fl.Set(f.Name, value)
	})
	if err == nil && fl.NArg() > 0 {
		return nil, usage(c, misplaced(c, fl.Args()))
	}
	if err != nil {
		return nil, flagUsage(c, err)
	}
	workspace := config.Env{Dir: a.env.Path(cmp.Or(fl.Lookup("workspace").Value.String(), "."))}
	for i, arg := range out {
		name, value, _ := strings.Cut(arg, "=")
		switch kind, _ := pflag.UnquoteUsage(fl.Lookup(name[2:])); {
		case name == "--skills-root", name == "--harness":
			out[i] = name + "=" + workspace.Path(value)
		case kind == "folder", kind == "file":
			out[i] = name + "=" + a.env.Path(value)
		}
	}
	return out, nil
}

// installed is the JSON output of install.
type installed struct {
	Client  string          `json:"client"`
	File    string          `json:"file"`
	Entry   json.RawMessage `json:"entry,omitempty"` // of the whole file, with nothing else in it
	Text    string          `json:"text"`
	Written bool            `json:"written"`
	Same    bool            `json:"unchanged"` // the file already has the entry

	replaced bool // another entry
	declined bool // the user saw the entry and does not want it written
}

func (a *app) mcpInstall(ctx context.Context, f mcpInstallFlags, m install.Client, args []string) error {
	if f.name == "" || strings.ContainsFunc(f.name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return wrong("usage", "use letters, digits, -, and _", "--as %q is not a server name", f.name)
	}
	served, err := f.served(args)
	if err != nil {
		return err
	}
	doc := installed{Client: m.Name}
	if doc.File, err = m.File(a.env.Home(), a.env.Path("."), f.project); err != nil {
		return err
	}
	if doc.Text, doc.Entry, err = m.Entry(served); err != nil {
		return err
	}
	if f.write {
		if err := a.installInto(ctx, f, m, &doc, served); err != nil {
			return err
		}
	}
	if a.json {
		return a.document(doc)
	}
	switch {
	case doc.Same:
		fmt.Fprintf(a.Out, "%s already has this entry; nothing was changed\n", oneLine(doc.File))
		return nil
	case doc.replaced:
		fmt.Fprintf(a.Out, "replaced the server %s in %s\n", f.name, oneLine(doc.File))
		return nil
	case doc.Written:
		fmt.Fprintf(a.Out, "written to %s\n", oneLine(doc.File))
		return nil
	case doc.declined:
		fmt.Fprintln(a.Err, "nothing was written")
		return nil
	}
	fmt.Fprint(a.Out, doc.Text)
	fmt.Fprintf(a.Err, "%s reads this entry from %s; to write it there, use --write\n", m.Title, oneLine(doc.File))
	return nil
}

// served returns how the client reaches the server.
func (f mcpInstallFlags) served(args []string) (s install.Server, err error) {
	switch {
	case f.url == "" && f.tokenEnv != "":
		return s, wrong("usage", "add --url, or omit --token-env", "--token-env requires --url: a server that the client starts needs no token")
	case f.url == "":
		self, err := os.Executable()
		return install.Server{Name: f.name, Command: append([]string{self, "mcp"}, args...)}, err
	case len(args) > 0:
		return s, wrong("usage", "pass them to the running 'metier mcp'", "arguments after -- are for a server that the client starts, but --url specifies a running server")
	}
	if u, err := url.Parse(f.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return s, wrong("usage", "use a URL such as http://127.0.0.1:8931/mcp", "--url is not a valid server URL")
	}
	if f.tokenEnv != "" && !envName.MatchString(f.tokenEnv) {
		return s, wrong("usage", "specify a variable, such as SKILLS_TOKEN, and set it to the token", "--token-env is not a valid environment variable name")
	}
	return install.Server{Name: f.name, URL: f.url, TokenEnv: f.tokenEnv}, nil
}

// installInto changes the client's file, unless it already has the entry.
func (a *app) installInto(ctx context.Context, f mcpInstallFlags, m install.Client, doc *installed, served install.Server) error {
	old, same, err := m.Installed(served, doc.File, a.env.Path("."), f.project)
	if doc.Same = same; err != nil || same {
		return err
	}
	if old != "" && !a.json {
		fmt.Fprintf(a.Err, "%s already has a server named %s, which will be replaced:\n%s", oneLine(doc.File), f.name, printable(old))
	}
	if !f.yes {
		if !a.asks() {
			return wrong("confirmation_needed", "add --yes, or omit --write and paste the printed entry", "cannot ask for confirmation to change %s", doc.File)
		}
		fmt.Fprint(a.Err, doc.Text)
		ok, err := a.confirms(ctx, fmt.Sprintf("Write this to %s?", oneLine(doc.File)))
		if err == nil && !ok {
			doc.declined = true
		}
		if err != nil || !ok {
			return err
		}
	}
	if err := m.Write(served, doc.File, a.env.Path("."), f.project); err != nil {
		return err
	}
	doc.Written, doc.replaced = true, old != ""
	return nil
}

// confirms asks a yes-or-no question. Anything other than yes is no.
func (a *app) confirms(ctx context.Context, question string) (bool, error) {
	line, err := a.typed(ctx, question+" [y/N] ")
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))), err
}
