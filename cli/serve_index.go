package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/internal/plural"
	"metier/mcp/serve"
	"metier/wellknown"
)

// siteFlags are the flags of `metier serve-index`.
type siteFlags struct {
	skillLocation
	listen, out    string
	names, origins []string
}

func (a *app) serveIndexCommand() *cobra.Command {
	var f siteFlags
	c := &cobra.Command{Use: "serve-index [ROOT...]", GroupID: "install", Short: "Publish skills as an index on the web",
		Long: `Serve-index serves skills to clients of the discovery format for Agent Skills:
'metier add http://127.0.0.1:8932', the npm package skills, opencode, and others. It
serves those that 'metier list' shows as loaded, or the ones in the folders ROOT. The
server shows the skills as they were when it was started.

It serves /.well-known/agent-skills/index.json (version 0.2.0, with digests),
/.well-known/skills/index.json (version 0.1), and /api/search. With --out DIR, it
writes the same files into a folder for any web server, without the search.

Anyone who can reach the server can read the skills. By default, only programs on this
machine can. Web pages can read them only with --allow-origin, or if the server
listens on another address.`,
		Example: `  metier serve-index
  metier serve-index ./skills --listen 0.0.0.0:8932
  metier serve-index ./skills --out public`,
		RunE: func(c *cobra.Command, args []string) error {
			f.roots = append(f.roots, args...)
			return a.serveIndex(c.Context(), f)
		}}
	f.skillLocation.flags(c)
	fl := c.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8932", "serve on this `address`; port 0 is a free one")
	fl.StringVar(&f.out, "out", "", "write the files of the site into this `folder` instead of serving them")
	fl.StringArrayVar(&f.names, "name", nil, "`host` name by which clients may call a server on a local address, in addition to localhost (repeatable)")
	fl.StringArrayVar(&f.origins, "allow-origin", nil, "let web pages with this `origin` read the skills; '*': all (repeatable)")
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

// siteDocument is the result of `metier serve-index --out DIR --json`.
type siteDocument struct {
	Folder  string              `json:"folder"`
	Skills  []wellknown.Skill   `json:"skills"`
	Omitted []wellknown.Omitted `json:"omitted"`
}

func (a *app) serveIndex(ctx context.Context, f siteFlags) (err error) {
	local, err := f.check()
	if err != nil {
		return err
	}
	sh, err := a.openIndex(ctx, f.skillLocation)
	if err != nil {
		return err
	}
	if err := sh.Publishable(); err != nil {
		return err
	}
	skills := slices.DeleteFunc(sh.Snapshot.All(), func(sk metier.Skill) bool { return sk.State != metier.Loaded || a.denies(sk) })
	dir, remove, err := a.siteFolder(f.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	site, err := wellknown.Build(ctx, sh.Snapshot, skills, root)
	if err != nil {
		return err
	}
	if !a.json {
		for _, o := range site.Omitted {
			fmt.Fprintf(a.Err, "note: %s is omitted: %s\n", oneLine(o.Name), oneLine(o.Reason))
		}
	}
	if f.out != "" {
		return a.put(siteDocument{dir, site.Skills, site.Omitted}, func() {
			fmt.Fprintf(a.Err, "wrote %s to %s\n", plural.Of(len(site.Skills), "skill"), oneLine(dir))
		})
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return wrong("address_unusable", "choose another address with --listen", "%v", err)
	}
	o := wellknown.Options{Search: sh.Snapshot.Search, Origins: f.origins}
	if local {
		o.Hosts = append([]string{"localhost", "127.0.0.1", "::1"}, f.names...)
	} else {
		fmt.Fprintf(a.Err, "warning: other machines can reach %s and read the skills\n", l.Addr())
		if f.origins == nil {
			o.Origins = []string{"*"}
		}
	}
	fmt.Fprintf(a.Err, "serving %s at http://%s\n", plural.Of(len(site.Skills), "skill"), l.Addr())
	return serve.HTTP(ctx, l, site.Handler(o))
}

// check checks the flags, and reports whether only this machine can reach the address.
func (f siteFlags) check() (local bool, err error) {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return false, wrong("usage", "write it as 127.0.0.1:8932", "--listen %q is not an address with a port", f.listen)
	}
	for _, n := range f.names {
		if n == "" || n != strings.ToLower(n) || strings.ContainsAny(n, ":/ ") {
			return false, wrong("usage", "write it in lower case, without a scheme and a port", "--name %q is not a host name", n)
		}
	}
	for _, o := range f.origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return false, wrong("usage", "write it as https://app.example.org", "--allow-origin %q is not an origin", o)
		}
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// siteFolder returns the folder of a site: the one that the user named, or a temporary one, which
// remove removes.
func (a *app) siteFolder(out string) (dir string, remove func() error, err error) {
	if out == "" {
		dir, err = os.MkdirTemp("", "metier-site-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	dir = a.env.Path(out)
	if err := a.checkOutput(filepath.Join(dir, "index.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", nil, err
	}
	return dir, func() error { return nil }, os.MkdirAll(dir, 0o755)
}
