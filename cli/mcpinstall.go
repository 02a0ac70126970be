package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/jsonedit"
)

// mcpClient is a program that can start metier as a server, and how it is told.
type mcpClient struct {
	name, title string
	user        []string // its file below the home
	project     []string // its file in a workspace; nil: it has none
	member      string   // of the file, in which entries stand by name; "": TOML, as a table of mcp_servers
	entry       func(command []string) any
}

// started is the entry that most clients share.
func started(command []string) any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{command[0], command[1:]}
}

// typedEntry says besides that the server is started, and not at an address.
func typedEntry(command []string) any {
	return struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{"stdio", command[0], command[1:]}
}

func localEntry(command []string) any {
	return struct {
		Type    string   `json:"type"`
		Command []string `json:"command"`
		Enabled bool     `json:"enabled"`
	}{"local", command, true}
}

// mcpClients are the clients by name. Where a file of VS Code stands differs from system to system.
func mcpClients() []mcpClient {
	code := []string{".config", "Code", "User", "mcp.json"}
	switch runtime.GOOS {
	case "darwin":
		code = []string{"Library", "Application Support", "Code", "User", "mcp.json"}
	case "windows":
		code = []string{"AppData", "Roaming", "Code", "User", "mcp.json"}
	}
	return []mcpClient{
		{"claude-code", "Claude Code", []string{".claude.json"}, []string{".mcp.json"}, "mcpServers", typedEntry},
		{"codex", "Codex", []string{".codex", "config.toml"}, nil, "", nil},
		{"cursor", "Cursor", []string{".cursor", "mcp.json"}, []string{".cursor", "mcp.json"}, "mcpServers", started},
		{"gemini", "Gemini CLI", []string{".gemini", "settings.json"}, []string{".gemini", "settings.json"}, "mcpServers", started},
		{"opencode", "opencode", []string{".config", "opencode", "opencode.json"}, []string{"opencode.json"}, "mcp", localEntry},
		{"vscode", "VS Code", code, []string{".vscode", "mcp.json"}, "servers", typedEntry},
	}
}

type mcpInstallFlags struct {
	name           string
	project, write bool
	yes            bool
}

func (a *app) mcpInstallCommand() *cobra.Command {
	var f mcpInstallFlags
	var names []string
	for _, m := range mcpClients() {
		names = append(names, m.name)
	}
	c := &cobra.Command{
		Use:   "install CLIENT [flags] [-- ARGS...]",
		Short: "Print or write the entry by which a client starts 'metier mcp'",
		Long: `Install prints what a client's configuration needs to start this program as a
server of skills, and where that stands. With --write it changes the file, after
asking; everything else in it stays as it is. Arguments after -- go to 'metier mcp'.

Clients: ` + strings.Join(names, ", ") + ".",
		Example: `  metier mcp install claude-code
  metier mcp install cursor --project --write
  metier mcp install codex -- --skills-root ~/skills`,
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); len(args) == 0 || n == 0 || n < 0 && len(args) > 1 || n > 1 {
				return wrong("usage", "clients: "+strings.Join(names, ", "), "install takes one client, and the server's arguments after --")
			}
			return nil
		},
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			i := slices.IndexFunc(mcpClients(), func(m mcpClient) bool { return m.name == args[0] })
			if i < 0 {
				return wrong("client_unknown", "clients: "+strings.Join(names, ", "), "there is no client %q", args[0])
			}
			return a.mcpInstall(c.Context(), f, mcpClients()[i], args[1:])
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.name, "as", "skills", "name of the server in the client")
	fl.BoolVar(&f.project, "project", false, "for this project, not for the user")
	fl.BoolVar(&f.write, "write", false, "write the entry into the file, after asking")
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

// installed is what install says as JSON.
type installed struct {
	Client  string          `json:"client"`
	File    string          `json:"file"`
	Entry   json.RawMessage `json:"entry,omitempty"` // of the whole file, with nothing else in it
	Text    string          `json:"text"`
	Written bool            `json:"written"`
}

func (a *app) mcpInstall(ctx context.Context, f mcpInstallFlags, m mcpClient, args []string) error {
	if f.name == "" || strings.ContainsFunc(f.name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return wrong("usage", "use letters, digits, - and _", "--as %q is no name of a server", f.name)
	}
	doc := installed{Client: m.name}
	switch {
	case !f.project && a.home() == "":
		return wrong("home_unset", "set HOME, or use --project", "the file of %s is below the home, and there is none", m.title)
	case !f.project:
		doc.File = filepath.Join(append([]string{a.home()}, m.user...)...)
	case m.project == nil:
		return wrong("usage", "leave --project out", "%s has no file of its own for a project", m.title)
	default:
		doc.File = filepath.Join(append([]string{a.path(".")}, m.project...)...)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := append([]string{self, "mcp"}, args...)
	if err := m.word(&doc, f.name, command); err != nil {
		return err
	}
	if f.write {
		if err := a.installInto(ctx, f, m, &doc, command); err != nil {
			return err
		}
	}
	if a.json {
		return a.document(doc)
	}
	if doc.Written {
		fmt.Fprintf(a.Out, "written to %s\n", oneLine(doc.File))
		return nil
	}
	fmt.Fprint(a.Out, doc.Text)
	fmt.Fprintf(a.Err, "%s reads this from %s; --write puts it there\n", m.title, oneLine(doc.File))
	return nil
}

// word gives the entry as it stands in a file that holds nothing else.
func (m mcpClient) word(doc *installed, name string, command []string) error {
	if m.member == "" {
		var args []string
		for _, x := range command[1:] {
			args = append(args, quoteTOML(x))
		}
		doc.Text = fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = [%s]\n", name, quoteTOML(command[0]), strings.Join(args, ", "))
		return nil
	}
	b, err := json.Marshal(map[string]any{m.member: map[string]any{name: m.entry(command)}})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, b, "", "  "); err != nil {
		return err
	}
	doc.Entry, doc.Text = b, text.String()+"\n"
	return nil
}

// quoteTOML is a text as a basic string of TOML: JSON's escapes are among its own.
func quoteTOML(s string) string {
	b, _ := json.Marshal(s) // a text always marshals
	return string(b)
}

// installInto changes the client's file.
func (a *app) installInto(ctx context.Context, f mcpInstallFlags, m mcpClient, doc *installed, command []string) error {
	if !f.yes {
		if !a.asks() {
			return wrong("confirmation_needed", "add --yes, or leave --write out and paste what is printed", "nobody can be asked whether %s may be changed", doc.File)
		}
		fmt.Fprint(a.Err, doc.Text)
		if ok, err := a.confirms(ctx, fmt.Sprintf("Write this into %s?", oneLine(doc.File))); err != nil || !ok {
			return err
		}
	}
	fault := func(err error) error {
		return &metier.Error{Op: "install", Path: doc.File, Kind: metier.Unavailable, Code: "client_file_unusable", Hint: "without --write the entry is printed: paste it", Err: err}
	}
	target, mode := doc.File, fs.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(target); err == nil { // a person may keep it elsewhere behind a link
		target = real
	}
	old, err := readNamed(target, maxState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault(err)
	}
	if info, err := os.Stat(target); err == nil {
		mode = info.Mode().Perm()
	}
	text, err := m.merged(old, f.name, doc.Text, command)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(target), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(target, text, mode)
	}
	if err != nil {
		return fault(err)
	}
	doc.Written = true
	return nil
}

// merged is the client's file with the entry in it.
func (m mcpClient) merged(old []byte, name, text string, command []string) ([]byte, error) {
	if m.member == "" {
		if strings.Contains(string(old), "[mcp_servers."+name+"]") {
			return nil, fmt.Errorf("it has a server %s already: remove that, or choose another name with --as", name)
		}
		if len(old) > 0 {
			text = strings.TrimRight(string(old), "\n") + "\n\n" + text
		}
		return []byte(text), nil
	}
	file, err := object(old)
	if err != nil {
		return nil, err
	}
	raw, _ := file.Get(m.member)
	servers, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.member, err)
	}
	entry, err := json.Marshal(m.entry(command))
	if err != nil {
		return nil, err
	}
	servers.Set(name, entry)
	if raw, err = servers.MarshalJSON(); err != nil {
		return nil, err
	}
	file.Set(m.member, raw)
	return file.Text()
}

// object reads a JSON object that may not be there.
func object(b []byte) (*jsonedit.Object, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return &jsonedit.Object{}, nil
	}
	o, err := jsonedit.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("it is not plain JSON, so it is left alone: %w", err)
	}
	return o, nil
}

// confirms asks a yes-or-no question; whatever is not yes is no.
func (a *app) confirms(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, err := readLine(ctx, bufio.NewReader(a.In))
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))), err
}
