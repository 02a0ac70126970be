package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/internal/jsonedit"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// mcpClient is a program that can use metier as a server, and how it is told.
type mcpClient struct {
	name, title string
	user        []string // its file below the home
	project     []string // its file in a workspace; nil: it has none
	member      string   // of the file, in which entries stand by name; "": TOML, as a table of mcp_servers
	bearer      string   // how it writes the Authorization of a token that the environment variable %s holds; "": TOML has a field for it
	entry       func(mcpServed) any
}

// mcpServed is where a client finds the server: a program that it starts, or
// an address.
type mcpServed struct {
	command []string
	url     string
	headers map[string]string
}

// plainEntry is the entry that most clients share.
func plainEntry(s mcpServed) any {
	return struct {
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{s.program(), s.args(), s.url, s.headers}
}

// typedEntry says besides whether the server is started or at an address.
func typedEntry(s mcpServed) any {
	kind := "stdio"
	if s.url != "" {
		kind = "http"
	}
	return struct {
		Type    string            `json:"type"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{kind, s.program(), s.args(), s.url, s.headers}
}

// geminiEntry has a word of its own for the address: url is documented for the
// transport before this one.
func geminiEntry(s mcpServed) any {
	return struct {
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		URL     string            `json:"httpUrl,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{s.program(), s.args(), s.url, s.headers}
}

func opencodeEntry(s mcpServed) any {
	kind := "local"
	if s.url != "" {
		kind = "remote"
	}
	return struct {
		Type    string            `json:"type"`
		Command []string          `json:"command,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Enabled bool              `json:"enabled"`
	}{kind, s.command, s.url, s.headers, true}
}

func (s mcpServed) program() string {
	if len(s.command) == 0 {
		return ""
	}
	return s.command[0]
}

func (s mcpServed) args() []string {
	if len(s.command) == 0 {
		return nil
	}
	return s.command[1:]
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
		{"claude-code", "Claude Code", []string{".claude.json"}, []string{".mcp.json"}, "mcpServers", "Bearer ${%s}", typedEntry},
		{"codex", "Codex", []string{".codex", "config.toml"}, nil, "", "", nil},
		{"cursor", "Cursor", []string{".cursor", "mcp.json"}, []string{".cursor", "mcp.json"}, "mcpServers", "Bearer ${env:%s}", plainEntry},
		{"gemini", "Gemini CLI", []string{".gemini", "settings.json"}, []string{".gemini", "settings.json"}, "mcpServers", "Bearer ${%s}", geminiEntry},
		{"opencode", "opencode", []string{".config", "opencode", "opencode.json"}, []string{"opencode.json"}, "mcp", "Bearer {env:%s}", opencodeEntry},
		{"vscode", "VS Code", code, []string{".vscode", "mcp.json"}, "servers", "Bearer ${env:%s}", typedEntry},
	}
}

type mcpInstallFlags struct {
	name           string
	url, tokenEnv  string
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
		Short: "Print or write the entry by which a client uses 'metier mcp'",
		Long: `Install prints what a client's configuration needs to start this program as a
server of skills, and where that stands. With --write it changes the file, after
asking; everything else in it stays as it is. Arguments after -- go to 'metier mcp'.

With --url the entry is for a server that runs already ('metier mcp --http ADDR').
Where that wants a token, --token-env names the environment variable in which the
client finds it: the token itself never stands in the file.

Clients: ` + strings.Join(names, ", ") + ".",
		Example: `  metier mcp install claude-code
  metier mcp install cursor --project --write
  metier mcp install codex -- --skills-root ~/skills
  metier mcp install gemini --url http://127.0.0.1:8931/mcp --token-env SKILLS_TOKEN`,
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
	fl.StringVar(&f.url, "url", "", "address of a running server, such as http://127.0.0.1:8931/mcp")
	fl.StringVar(&f.tokenEnv, "token-env", "", "with --url: environment variable that holds the client's token")
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
	served, err := f.served(m, args)
	if err != nil {
		return err
	}
	doc := installed{Client: m.name}
	switch {
	case !f.project && a.env.Home() == "":
		return wrong("home_unset", "set HOME, or use --project", "the file of %s is below the home, and there is none", m.title)
	case !f.project:
		doc.File = filepath.Join(append([]string{a.env.Home()}, m.user...)...)
	case m.project == nil:
		return wrong("usage", "leave --project out", "%s has no file of its own for a project", m.title)
	default:
		doc.File = filepath.Join(append([]string{a.env.Path(".")}, m.project...)...)
	}
	if err := m.word(&doc, f, served); err != nil {
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
	if doc.Written {
		fmt.Fprintf(a.Out, "written to %s\n", oneLine(doc.File))
		return nil
	}
	fmt.Fprint(a.Out, doc.Text)
	fmt.Fprintf(a.Err, "%s reads this from %s; --write puts it there\n", m.title, oneLine(doc.File))
	return nil
}

// served is where the client will find the server.
func (f mcpInstallFlags) served(m mcpClient, args []string) (s mcpServed, err error) {
	switch {
	case f.url == "" && f.tokenEnv != "":
		return s, wrong("usage", "add --url, or leave --token-env out", "--token-env is for --url: a server that the client starts needs no token")
	case f.url == "":
		self, err := os.Executable()
		return mcpServed{command: append([]string{self, "mcp"}, args...)}, err
	case len(args) > 0:
		return s, wrong("usage", "give them to 'metier mcp' where it runs", "arguments after -- are for a server that the client starts, and --url names one that runs")
	}
	if u, err := url.Parse(f.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return s, wrong("usage", "write it as http://127.0.0.1:8931/mcp", "--url is no address of a server")
	}
	if f.tokenEnv != "" && !envName.MatchString(f.tokenEnv) {
		return s, wrong("usage", "name the variable, such as SKILLS_TOKEN, and set it to the token", "--token-env is no name of an environment variable")
	}
	s.url = f.url
	if f.tokenEnv != "" && m.bearer != "" {
		s.headers = map[string]string{"Authorization": fmt.Sprintf(m.bearer, f.tokenEnv)}
	}
	return s, nil
}

// word gives the entry as it stands in a file that holds nothing else.
func (m mcpClient) word(doc *installed, f mcpInstallFlags, served mcpServed) error {
	if m.member == "" {
		doc.Text = tableTOML(f, served)
		return nil
	}
	b, err := json.Marshal(map[string]any{m.member: map[string]any{f.name: m.entry(served)}})
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

func tableTOML(f mcpInstallFlags, served mcpServed) string {
	text := fmt.Sprintf("[mcp_servers.%s]\n", f.name)
	if served.url != "" {
		text += "url = " + quoteTOML(served.url) + "\n"
		if f.tokenEnv != "" {
			text += "bearer_token_env_var = " + quoteTOML(f.tokenEnv) + "\n"
		}
		return text
	}
	var args []string
	for _, x := range served.args() {
		args = append(args, quoteTOML(x))
	}
	return text + fmt.Sprintf("command = %s\nargs = [%s]\n", quoteTOML(served.program()), strings.Join(args, ", "))
}

// quoteTOML is a text as a basic string of TOML: JSON's escapes are among its own.
func quoteTOML(s string) string {
	b, _ := json.Marshal(s) // a text always marshals
	return string(b)
}

// installInto changes the client's file.
func (a *app) installInto(ctx context.Context, f mcpInstallFlags, m mcpClient, doc *installed, served mcpServed) error {
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
	root, name, err := a.installFolder(f, m, doc.File)
	if err != nil {
		return fault(err)
	}
	defer root.Close()
	if err := m.installBelow(root, name, f, doc.Text, served); err != nil {
		return fault(err)
	}
	doc.Written = true
	return nil
}

// installFolder opens the folder of a client's file. A person may keep the file
// of the home elsewhere, behind a link. A project does not say which other files
// are changed, also while one of its programs puts a link there.
func (a *app) installFolder(f mcpInstallFlags, m mcpClient, file string) (*os.Root, string, error) {
	if !f.project {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, "", err
		}
		root, err := os.OpenRoot(filepath.Dir(file))
		return root, filepath.Base(file), err
	}
	project, err := os.OpenRoot(a.env.Path("."))
	if err != nil {
		return nil, "", err
	}
	defer project.Close()
	dir := filepath.Dir(filepath.Join(m.project...))
	if err := project.MkdirAll(dir, 0o755); err != nil {
		return nil, "", fmt.Errorf("a link may lead out of the project: %w", err)
	}
	root, err := project.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("a link may lead out of the project: %w", err)
	}
	return root, filepath.Base(file), nil
}

// installBelow merges the entry into a client's file.
func (m mcpClient) installBelow(root *os.Root, name string, f mcpInstallFlags, entry string, served mcpServed) error {
	var old []byte
	mode := fs.FileMode(0o600)
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a link, and a project does not say which other files are changed")
	default:
		mode = info.Mode().Perm()
		if old, err = readBelow(root, name, 4<<20); err != nil {
			return err
		}
	}
	text, err := m.merged(old, f.name, entry, served)
	if err != nil {
		return err
	}
	return rewrite(root, name, old, text, mode)
}

// merged is the client's file with the entry in it.
func (m mcpClient) merged(old []byte, name, text string, served mcpServed) ([]byte, error) {
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
	entry, err := json.Marshal(m.entry(served))
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
	line, err := a.typed(ctx, question+" [y/N] ")
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))), err
}
