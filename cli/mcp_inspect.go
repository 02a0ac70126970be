package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/config"
	"metier/internal/plural"
	"metier/mcp/host"
	"metier/policy"
	"metier/skillmd"
)

// mcpServer is one server in the output of `mcp ls`.
type mcpServer struct {
	Label     string `json:"label"`
	Transport string `json:"transport"`
	Status    string `json:"status"` // ok or failed
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	Info      string `json:"serverInfo,omitempty"`
	Tools     int    `json:"tools"`
	Skills    bool   `json:"skills"` // it declares io.modelcontextprotocol/skills
}

type mcpTool struct {
	Name   string        `json:"name"` // as grants and models call it
	Effect policy.Effect `json:"effect"`
}

type mcpSkill struct {
	Name     string              `json:"name"`
	ID       string              `json:"id"`
	State    string              `json:"state"`
	Files    int                 `json:"files"`
	Bytes    int64               `json:"bytes"`
	Dynamic  bool                `json:"dynamic"`
	Tree     string              `json:"tree,omitempty"`
	Verified *bool               `json:"verified,omitempty"` // with --verify, unless dynamic
	Problems []metier.Diagnostic `json:"diagnostics"`
}

func (a *app) mcpLsCommand() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the configured MCP servers, and check whether they respond",
		Long: `Connect to every server in the configuration (mcp:, mcp_config:) and in
--mcp-config, and show what each one offers. Exit with 1 if any of them fails.
A project's files, such as .mcp.json, are read only if you specify them.`,
		Example: "  metier mcp ls\n  metier mcp ls --mcp-config .mcp.json --json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.mcpLs(c.Context(), files) },
	}
	c.Flags().StringArrayVar(&files, "mcp-config", nil, "`file` that lists MCP servers, {\"mcpServers\": …} (repeatable)")
	a.completions(c)
	return c
}

// configured opens the servers of the configuration and of files. If only is not "", it opens only
// that server, with its skills.
func (a *app) configured(ctx context.Context, files []string, only string) (*host.Host, error) {
	op, err := config.Load(a.env)
	if err != nil {
		return nil, err
	}
	servers, err := a.engine().Servers(op, files)
	if err != nil {
		return nil, err
	}
	if only != "" {
		var labels []string
		for _, s := range servers {
			labels = append(labels, s.Label)
		}
		i := slices.Index(labels, only)
		if i < 0 {
			return nil, &metier.Error{Op: "mcp inspect", Path: only, Kind: metier.NotFound, Code: "mcp_server_unknown",
				Hint: "configured servers: " + cmp.Or(strings.Join(labels, ", "), "none") + "; add servers with --mcp-config FILE", Err: errors.New("no server has this name")}
		}
		servers = servers[i : i+1]
		servers[0].Skills = true
	}
	return a.engine().OpenHost(ctx, servers, &host.Options{Dir: a.Dir}) // no cache: what is there is looked at, not what was
}

func (a *app) mcpLs(ctx context.Context, files []string) (err error) {
	h, err := a.configured(ctx, files, "")
	if err != nil {
		return err
	}
	defer func() { err = closed(h.Close(), err) }()
	out, failed := []mcpServer{}, []string{}
	for _, s := range h.Servers() {
		if out = append(out, serverOf(s)); s.Err != nil {
			failed = append(failed, s.Label)
		}
	}
	err = a.put(map[string]any{"servers": out}, func() {
		if len(out) == 0 {
			fmt.Fprintln(a.Out, "no servers are configured; list them under mcp: servers: in the configuration, or specify a file with --mcp-config")
		}
		for _, s := range out {
			fmt.Fprintf(a.Out, "%-20s %-6s %-7s %s\n", s.Label, s.Transport, s.Status, s.words())
		}
	})
	if err == nil && len(failed) > 0 {
		err = &problem{exit: exitFailed, code: "mcp_failed", hint: "the list shows the reasons; runs continue without these servers",
			err: fmt.Errorf("%d of %s failed: %s", len(failed), plural.Of(len(out), "MCP server"), strings.Join(failed, ", "))}
	}
	return a.printed(err)
}

func serverOf(s host.Status) mcpServer {
	out := mcpServer{Label: s.Label, Transport: s.Transport, Status: "ok", Protocol: oneLine(s.Version), Info: oneLine(s.Info), Tools: s.Tools, Skills: s.Skills}
	if s.Err != nil {
		out.Status, out.Code, out.Detail = "failed", metier.CodeOf(s.Err), oneLine(s.Err.Error())
		if e, ok := errors.AsType[*metier.Error](s.Err); ok && e.Err != nil {
			out.Detail = oneLine(e.Err.Error()) // the server is named beside it
		}
	}
	return out
}

func (s mcpServer) words() string {
	if s.Status != "ok" {
		return s.Code + ": " + s.Detail
	}
	return fmt.Sprintf("%s, %s, protocol %s", plural.Of(s.Tools, "tool"), map[bool]string{true: "skills", false: "no skills"}[s.Skills], s.Protocol)
}

func (a *app) mcpInspectCommand() *cobra.Command {
	var files []string
	var verify bool
	c := &cobra.Command{
		Use:   "inspect SERVER",
		Short: "Show an MCP server's tools and skills, and verify the skills",
		Long: `Inspect shows what a configured server offers, as a run would see it: the names
and effects of its tools, and its skills with their problems. It does not fetch
skill files. With --verify, it fetches all of them, checks sizes, digests, and
frontmatter, and exits with 1 if any file does not match or cannot be verified.`,
		Example: "  metier mcp inspect docs\n  metier mcp inspect docs --verify --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.mcpInspect(c.Context(), args[0], files, verify) },
	}
	c.Flags().StringArrayVar(&files, "mcp-config", nil, "`file` that lists MCP servers, {\"mcpServers\": …} (repeatable)")
	c.Flags().BoolVar(&verify, "verify", false, "fetch every file and compare it with its entry")
	a.completions(c)
	return c
}

func (a *app) mcpInspect(ctx context.Context, label string, files []string, verify bool) (err error) {
	h, err := a.configured(ctx, files, label)
	if err != nil {
		return err
	}
	defer func() { err = closed(h.Close(), err) }()
	st := h.Servers()[0]
	if st.Err != nil {
		return st.Err
	}
	tools := []mcpTool{}
	for _, t := range h.Tools() {
		spec, _ := t.Spec(ctx, nil)
		tools = append(tools, mcpTool{spec.Canonical, spec.Effect})
	}
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	set, _, _, err := op.Resolve(a.env, "", a.Dir)
	if err != nil {
		return err
	}
	n, err := a.engine().Snapshot(ctx, nil, set, a.Dir, nil, h.Mounts()...)
	if err != nil {
		return err
	}
	skills, bad, open := []mcpSkill{}, 0, 0
	for _, sk := range n.All() {
		x := a.inspected(ctx, n, sk, verify)
		if x.Verified != nil && !*x.Verified || sk.State == metier.Refused {
			bad++
		} else if verify && x.Verified == nil {
			open++
		}
		skills = append(skills, x)
	}
	notes := diagnostics(h.Notes())
	err = a.put(map[string]any{"server": serverOf(st), "tools": tools, "skills": skills, "diagnostics": notes}, func() {
		showInspected(a.Out, serverOf(st), tools, skills, notes)
	})
	if err == nil && bad > 0 {
		err = &problem{exit: exitFailed, code: "mcp_not_verified", hint: "runs refuse these skills; report the problem to the server's operator", err: fmt.Errorf("%d of the server's skills cannot be used", bad)}
	}
	if err == nil && open > 0 {
		err = &problem{exit: exitFailed, code: "mcp_not_verifiable", hint: "the server generates them on each request; runs ask each time before programs", err: fmt.Errorf("%d of the server's skills cannot be verified", open)}
	}
	return a.printed(err)
}

// inspected returns one skill. If verify is set, its files are compared.
func (a *app) inspected(ctx context.Context, n *metier.Snapshot, sk metier.Skill, verify bool) mcpSkill {
	x := mcpSkill{Name: sk.Name, ID: sk.ID.String(), State: string(sk.State), Problems: diagnostics(sk.Diagnostics)}
	if sk.State == metier.Refused {
		return x
	}
	b, err := n.Open(ctx, sk.ID)
	var m metier.Manifest
	if err == nil {
		defer b.Close()
		m, err = b.Manifest(ctx)
	}
	if err != nil {
		x.Problems, x.Verified = append(x.Problems, metier.Diagnostic{Severity: skillmd.Error, Code: metier.CodeOf(err), Detail: oneLine(err.Error()), Path: sk.Head.FileName}), new(bool)
		return x
	}
	for _, f := range m.Files {
		x.Files, x.Bytes = x.Files+1, x.Bytes+f.Size
	}
	x.Dynamic, x.Tree = m.Dynamic, string(m.Tree)
	x.Problems = append(x.Problems, diagnostics(m.Diagnostics)...)
	if !verify {
		return x
	}
	bad := host.Verify(ctx, b, m)
	if good := len(bad) == 0; !good || !m.Dynamic {
		x.Verified = &good
	}
	x.Problems = append(x.Problems, bad...)
	return x
}

func showInspected(w io.Writer, s mcpServer, tools []mcpTool, skills []mcpSkill, notes []metier.Diagnostic) {
	fmt.Fprintf(w, "%s: %s (self-reported name: %q)\n", s.Label, s.words(), s.Info)
	for _, t := range tools {
		fmt.Fprintf(w, "tool   %-50s %s\n", t.Name, t.Effect)
	}
	for _, k := range skills {
		state := k.State
		if k.Verified != nil {
			state += map[bool]string{true: ", verified", false: ", NOT verified"}[*k.Verified]
		}
		fmt.Fprintf(w, "skill  %-50s %s, %s, %d bytes\n", oneLine(k.Name), state, plural.Of(k.Files, "file"), k.Bytes)
		for _, d := range k.Problems {
			fmt.Fprintf(w, "       %s: %s: %s\n", d.Severity, d.Code, oneLine(d.Detail))
		}
	}
	for _, d := range notes {
		fmt.Fprintf(w, "note: %s: %s\n", d.Code, oneLine(d.Detail))
	}
}
