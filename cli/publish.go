package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"metier/engine"
	"metier/internal/plural"
	"metier/scan"
	"metier/settings"
)

// publishFlags are the flags of `metier publish`.
type publishFlags struct {
	profile                    string
	set                        []string
	yes, force, dry, dangerous bool
}

func (a *app) publishCommand() *cobra.Command {
	var f publishFlags
	c := &cobra.Command{Use: "publish FOLDER TARGET", GroupID: "install", Short: "Publish a skill in a registry",
		Long: `Publish packs the skill in a folder and sends it to an OCI registry, such as ghcr.io,
Docker Hub, or Harbor. TARGET is oci://HOST/REPOSITORY:TAG; the default tag is latest.
'metier add TARGET' installs it.

The skill is validated and scanned first. Publish shows what it would send, and asks.
The same files always have the same digest. A tag that names something else is not
replaced, except with --force. The last line of the output is the reference that
always names this content.

Registries are used with the credentials in your Docker configuration: sign in with
'docker login'.`,
		Example: "  metier publish ./pdf oci://ghcr.io/acme/pdf:1.2\n  metier publish ./pdf oci://ghcr.io/acme/pdf:1.2 --dry-run",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			layer, err := setFlag(f.set)
			if err != nil {
				return err
			}
			p, err := a.engine().Publish(c.Context(), engine.Request{Profile: f.profile, Layers: []settings.Layer{layer}}, args[0], args[1])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			return a.publish(c.Context(), p, f)
		}}
	fl := c.Flags()
	fl.BoolVar(&f.dry, "dry-run", false, "show what would be published, and contact no server")
	fl.BoolVar(&f.force, "force", false, "replace the tag if it names something else")
	fl.BoolVar(&f.dangerous, "allow-findings", false, "also publish a skill in which the scanner finds signs of an attack")
	fl.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	fl.StringVar(&f.profile, "profile", "", "settings `profile`; see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "change a setting: `name=value` (repeatable)")
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
	return c
}

// publishDocument is the result of `publish`.
type publishDocument struct {
	Reference string       `json:"reference"` // with the tag
	Pinned    string       `json:"pinned"`    // with the digest
	Digest    string       `json:"digest"`    // of the manifest
	State     publishState `json:"state"`
	Replaced  string       `json:"replaced,omitempty"` // digest that the tag named before
	Name      string       `json:"name"`
	Files     int          `json:"files"`
	Bytes     int64        `json:"bytes"`
	Tree      string       `json:"tree"`
	Layer     string       `json:"layer"` // digest of the archive
	Scan      *scan.Report `json:"scan"`
}

// publishState is what `publish` did.
type publishState string

const (
	publishDry       publishState = "dry_run"
	publishUnchanged publishState = "unchanged" // the tag already names this content
	publishDone      publishState = "published"
)

func (a *app) publish(ctx context.Context, p *engine.Publication, f publishFlags) error {
	c := p.Change
	doc := publishDocument{Reference: p.Target.String(), Pinned: p.Pinned(), Digest: p.Digest, State: publishDry, Name: c.Skill.Name, Files: len(c.Entry.Files), Bytes: c.Bytes, Tree: c.Entry.Tree, Layer: p.Layer, Scan: c.Scan}
	if !a.json {
		fmt.Fprintf(a.Out, "%s: %s, %s bytes, to %s\n", oneLine(c.Name), plural.Of(doc.Files, "file"), plural.Thousands(c.Bytes), oneLine(doc.Reference))
		a.preview(c)
	}
	if err := p.Check(); err != nil && !f.dangerous {
		return err
	}
	if f.dry {
		return a.published(doc, "nothing was sent")
	}
	now, err := p.Current(ctx)
	a.fetched()
	switch {
	case err != nil:
		return err
	case now == p.Digest:
		doc.State = publishUnchanged
		return a.published(doc, "the registry already has it")
	case now != "" && !f.force:
		return p.Taken(now)
	case now != "" && !a.json:
		fmt.Fprintf(a.Out, "replaces %s\n", now)
	}
	agreed, err := a.consents(ctx, "Publish "+oneLine(doc.Reference)+"?", f.yes)
	if err != nil || !agreed {
		return err
	}
	err = p.Push(ctx, f.force)
	a.fetched()
	if err != nil {
		return err
	}
	doc.State, doc.Replaced = publishDone, now
	return a.published(doc, "published")
}

// published prints the result.
func (a *app) published(doc publishDocument, end string) error {
	return a.put(doc, func() {
		fmt.Fprintln(a.Err, end)
		fmt.Fprintln(a.Out, oneLine(doc.Pinned))
	})
}
