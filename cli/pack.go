package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"metier/install"
	"metier/internal/plural"
	"metier/settings"
)

func (a *app) packCommand() *cobra.Command {
	var out, profile string
	c := &cobra.Command{Use: "pack FOLDER", GroupID: "install", Short: "Pack a skill into an archive",
		Long: `Pack writes the skill in a folder into an archive that 'metier add' and other clients
can install: one folder with the name of the skill. The same files always give the
same archive. A skill that would not load, and a file that cannot be packed, such as
a link, are errors.`,
		Example: "  metier pack ./pdf\n  metier pack ./pdf -o dist/pdf.tar.gz --json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			doc, err := a.pack(c.Context(), args[0], out, profile)
			if err != nil {
				return err
			}
			return a.put(doc, func() {
				fmt.Fprintf(a.Out, "%s: %s, %s\n", oneLine(doc.File), plural.Of(doc.Files, "file"), doc.Digest)
				if len(doc.Secrets) > 0 {
					fmt.Fprintf(a.Err, "warning: the archive contains files that are often secrets: %s\n", oneLine(some(doc.Secrets)))
				}
			})
		}}
	c.Flags().StringVarP(&out, "out", "o", "", "archive `file`: .zip, .skill, .tar, or .tar.gz (default: NAME.zip)")
	c.Flags().StringVar(&profile, "profile", "", "settings `profile` by which the skill must load; see 'metier profile list'")
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
	return c
}

// packDocument is the result of `pack`.
type packDocument struct {
	File string `json:"file"`
	install.Packed
}

func (a *app) pack(ctx context.Context, dir, out, profile string) (packDocument, error) {
	set, err := profileSettings(cmp.Or(profile, settings.DefaultProfile))
	if err != nil {
		return packDocument{}, err
	}
	var b bytes.Buffer
	p, err := install.Pack(ctx, a.env.Path(dir), cmp.Or(out, ".zip"), &b, set)
	if err != nil {
		return packDocument{}, err
	}
	if out == "" {
		out = p.Folder + ".zip"
		if old, err := os.ReadFile(filepath.Join(a.Dir, out)); err == nil && !bytes.Equal(old, b.Bytes()) {
			return packDocument{}, &problem{exit: exitUsage, code: "archive_exists", err: fmt.Errorf("%s exists, and is another archive", oneLine(out)), hint: "remove it, or replace it with --out " + oneLine(out)}
		}
	}
	return packDocument{out, p}, a.engine().WriteOutput(out, b.Bytes(), a.Dir)
}
