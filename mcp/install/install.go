// Package install adds metier to the configuration files of MCP clients.
package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"metier"
	"metier/internal/agentdirs"
	"metier/internal/jsonedit"
	"metier/internal/rootfile"
)

// Entry returns what a file holds that has nothing but the entry: its text and, unless it
// is TOML, its JSON.
func (m Client) Entry(served Server) (text string, entry json.RawMessage, err error) {
	served = m.authorized(served)
	if m.member == "" {
		return tableTOML(served), nil, nil
	}
	if entry, err = json.Marshal(map[string]any{m.member: map[string]any{served.Name: m.entry(served)}}); err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, entry, "", "  ")
	return b.String() + "\n", entry, err
}

// authorized returns the server with the header that carries the client's token.
func (m Client) authorized(s Server) Server {
	if s.TokenEnv != "" && m.bearer != "" {
		s.headers = map[string]string{"Authorization": fmt.Sprintf(m.bearer, s.TokenEnv)}
	}
	return s
}

// Installed returns the entry that Write would replace, or "", and whether it is the same one. It
// fails if Write could not replace it.
func (m Client) Installed(served Server, file, project string, inProject bool) (entry string, same bool, err error) {
	root, name, err := m.folder(file, project, inProject, false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	var old []byte
	if err == nil {
		defer root.Close()
		if old, _, err = read(root, name); err == nil {
			entry, same, err = m.existing(old, m.authorized(served))
		}
	}
	return entry, same, unusable(file, err)
}

// existing returns what Installed does, for the content of the file.
func (m Client) existing(old []byte, served Server) (entry string, same bool, err error) {
	if m.member == "" {
		text := tableTOML(served)
		has, err := tableOf(old, served.Name)
		if err != nil || has == nil {
			return "", false, err
		}
		wanted, err := tableOf([]byte(text), served.Name)
		switch {
		case err != nil:
			return "", false, err
		case !reflect.DeepEqual(has, wanted):
			return "", false, taken(served.Name)
		}
		return text, true, nil
	}
	file, err := object(old)
	if err != nil {
		return "", false, err
	}
	raw, _ := file.Get(m.member)
	servers, err := object(raw)
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", m.member, err)
	}
	raw, found := servers.Get(served.Name)
	if !found {
		return "", false, nil
	}
	want, err := json.Marshal(m.entry(served))
	if err != nil {
		return "", false, err
	}
	var has, wanted any
	if err := errors.Join(json.Unmarshal(raw, &has), json.Unmarshal(want, &wanted)); err != nil {
		return "", false, err
	}
	return string(raw) + "\n", reflect.DeepEqual(has, wanted), nil
}

// taken returns the error for a TOML file that has another entry, which is not replaced.
func taken(name string) error {
	return &metier.Error{Op: "install", Kind: metier.Unavailable, Code: "client_file_unusable", Hint: "remove the entry from the file, or choose another name for the server",
		Err: fmt.Errorf("it already has a server named %s", name)}
}

// unusable returns the error for a client's file that cannot be read or changed.
func unusable(file string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*metier.Error](err); ok {
		with := *e
		with.Path = file
		return &with
	}
	return &metier.Error{Op: "install", Path: file, Kind: metier.Unavailable, Code: "client_file_unusable", Hint: "paste the entry into the file yourself", Err: err}
}

// Write adds the entry to a client's file. Everything else in the file is unchanged.
func (m Client) Write(served Server, file, project string, inProject bool) error {
	root, name, err := m.folder(file, project, inProject, true)
	if err == nil {
		defer root.Close()
		err = m.writeBelow(root, name, m.authorized(served))
	}
	return unusable(file, err)
}

func tableTOML(served Server) string {
	text := fmt.Sprintf("[mcp_servers.%s]\n", served.Name)
	if served.URL != "" {
		text += "url = " + quoteTOML(served.URL) + "\n"
		if served.TokenEnv != "" {
			text += "bearer_token_env_var = " + quoteTOML(served.TokenEnv) + "\n"
		}
		return text
	}
	var args []string
	for _, x := range served.args() {
		args = append(args, quoteTOML(x))
	}
	return text + fmt.Sprintf("command = %s\nargs = [%s]\n", quoteTOML(served.program()), strings.Join(args, ", "))
}

// tableOf returns the entry of a server in a TOML file, or nil.
func tableOf(file []byte, name string) (map[string]any, error) {
	var f struct {
		Servers map[string]map[string]any `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(file, &f); err != nil {
		return nil, fmt.Errorf("it is not valid TOML, so it was not changed: %w", err)
	}
	return f.Servers[name], nil
}

// withTable returns a TOML file with the entry appended, so that the comments in the file stay.
func withTable(old []byte, served Server) ([]byte, error) {
	switch has, err := tableOf(old, served.Name); {
	case err != nil:
		return nil, err
	case has != nil:
		return nil, taken(served.Name)
	}
	text := tableTOML(served)
	if rest := strings.TrimRight(string(old), "\r\n"); rest != "" {
		text = rest + "\n\n" + text
	}
	if _, err := tableOf([]byte(text), served.Name); err != nil { // such as mcp_servers = {}, which nothing can be appended to
		return nil, errors.New("its mcp_servers is not written as tables, so nothing can be appended to it")
	}
	return []byte(text), nil
}

// quoteTOML is a text as a basic string of TOML: JSON's escapes are among its own.
func quoteTOML(s string) string {
	b, _ := json.Marshal(s) // a text always marshals
	return string(b)
}

// folder opens the folder of a client's file. A person may keep the file
// of the home elsewhere, behind a link. A project does not say which other files
// are changed, also while one of its programs puts a link there.
func (m Client) folder(file, in string, inProject, create bool) (*os.Root, string, error) {
	if !inProject {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		if create {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return nil, "", err
			}
		}
		root, err := os.OpenRoot(filepath.Dir(file))
		return root, filepath.Base(file), err
	}
	project, err := os.OpenRoot(in)
	if err != nil {
		return nil, "", err
	}
	defer project.Close()
	dir := filepath.Dir(filepath.FromSlash(agentdirs.MCPFile(m.Name)))
	if create {
		if err := project.MkdirAll(dir, 0o755); err != nil {
			return nil, "", fmt.Errorf("a link may lead out of the project: %w", err)
		}
	}
	root, err := project.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("a link may lead out of the project: %w", err)
	}
	return root, filepath.Base(file), nil
}

// writeBelow merges the entry into a client's file.
func (m Client) writeBelow(root *os.Root, name string, served Server) error {
	old, mode, err := read(root, name)
	if err != nil {
		return err
	}
	text, err := m.merged(old, served)
	if err != nil {
		return err
	}
	return rootfile.Replace(root, name, old, text, mode)
}

// read returns the content and the mode of a client's file, which may not exist.
func read(root *os.Root, name string) (old []byte, mode fs.FileMode, err error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0o600, nil
	case err != nil:
		return nil, 0, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, 0, errors.New("it is a symlink, and a project must not choose other files to change")
	}
	old, err = rootfile.Read(root, name, 4<<20)
	return old, info.Mode().Perm(), err
}

// merged returns the client's file with the entry added.
func (m Client) merged(old []byte, served Server) ([]byte, error) {
	if m.member == "" {
		return withTable(old, served)
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
	servers.Set(served.Name, entry)
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
		return nil, fmt.Errorf("it is not plain JSON, so it was not changed: %w", err)
	}
	return o, nil
}
