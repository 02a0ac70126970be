package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/internal/plural"
	"metier/internal/sarif"
	"metier/scan"
)

// scanFlags are the flags of `scan`.
type scanFlags struct {
	format, failOn, baseline, writeBaseline string
	notes                                   bool
}

func (a *app) scanCommand() *cobra.Command {
	var f scanFlags
	c := &cobra.Command{Use: "scan PATH...", GroupID: "author", Short: "Search skills for signs of an attack",
		Long: `Scan searches the files of skills for signs of an attack: prompt injection,
exfiltration, access to credentials, destructive commands, obfuscation, hidden
characters, and downloads that are executed. It runs nothing and uses no network.
A path is a skill's folder, its SKILL.md, or a folder that contains skills.

For each skill, scan prints a verdict (clean, suspicious, or dangerous), the
confidence in it, how much of the skill was read, the findings with a fix, and
what the skill's code can do if it runs. Findings of low severity or confidence
do not change the verdict; --notes prints them too.

A scan finds known forms of attacks. It cannot prove that a skill is harmless.

Exit 0: no skill reaches the verdict of --fail-on. 1: at least one does.
2: wrong usage. 4: a path does not exist or contains no skill.`,
		Example: "  metier scan .agents/skills\n  metier scan my-skill --format sarif > scan.sarif\n  metier scan skills --write-baseline accepted.json\n  metier scan skills --baseline accepted.json --fail-on dangerous",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.setFormat(c, &f.format); err != nil {
				return err
			}
			return a.scan(c.Context(), args, f)
		}}
	c.Flags().StringVar(&f.format, "format", formatText, "output `format`: text, json, or sarif")
	c.Flags().StringVar(&f.failOn, "fail-on", string(scan.Suspicious), "exit with 1 from this `verdict` on: suspicious or dangerous")
	c.Flags().StringVar(&f.baseline, "baseline", "", "ignore the findings in this `file`")
	c.Flags().StringVar(&f.writeBaseline, "write-baseline", "", "write the findings to this `file`, to be ignored later")
	c.Flags().BoolVar(&f.notes, "notes", false, "also print findings of low severity or confidence")
	a.completions(c)
	_ = c.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{string(scan.Suspicious), string(scan.Dangerous)}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagFilename("baseline", "json")
	c.ValidArgsFunction = folders
	return c
}

// scan scans the paths in order, prints the reports, and fails if one of them reaches the threshold.
func (a *app) scan(ctx context.Context, paths []string, f scanFlags) error {
	least := scan.Verdict(f.failOn)
	if least != scan.Suspicious && least != scan.Dangerous {
		return wrong("usage", "verdicts: suspicious, dangerous", "--fail-on %q is not a verdict", f.failOn)
	}
	accepted, err := a.readBaseline(f.baseline)
	if err != nil {
		return err
	}
	written := scan.Baseline{}
	list, seen := []engine.Scanned{}, map[string]bool{}
	flagged := 0
	for _, p := range paths {
		found, err := engine.Scan(ctx, a.Dir, p)
		if err != nil {
			return err
		}
		for _, x := range found {
			if seen[x.Path] {
				continue
			}
			seen[x.Path] = true
			name := a.folderName(x.Path)
			written.Add(name, x.Report)
			x.Report = accepted.Apply(name, x.Report)
			if x.Verdict.AtLeast(least) {
				flagged++
			}
			if f.format == formatText {
				a.showScan(x, f.notes)
			}
			list = append(list, x)
		}
	}
	if err := a.putScans(list, f.format, flagged == 0); err != nil {
		return err
	}
	switch {
	case f.writeBaseline != "":
		return a.saveBaseline(f.writeBaseline, written)
	case flagged > 0:
		return &problem{exit: exitFailed, code: "skill_flagged", err: fmt.Errorf("%s at least %s", countOf(flagged, len(list), "skill"), least),
			hint: "read the findings; to accept them after a review, use --write-baseline FILE, and then --baseline FILE"}
	}
	return nil
}

// putScans prints the document of JSON and SARIF.
func (a *app) putScans(list []engine.Scanned, format string, ok bool) error {
	switch format {
	case formatJSON:
		return a.document(struct {
			OK      bool             `json:"ok"`
			Results []engine.Scanned `json:"results"`
		}{ok, list})
	case formatSARIF:
		return a.document(scanSARIF(list))
	}
	return nil
}

func scanSARIF(list []engine.Scanned) any {
	levels := map[scan.Severity]string{scan.Critical: sarif.Error, scan.High: sarif.Error, scan.Medium: sarif.Warning, scan.Low: sarif.Note}
	var rules []sarif.Rule
	for _, r := range scan.Rules() {
		rules = append(rules, sarif.Rule{ID: r.ID, Title: r.Title, Why: r.Why, Fix: r.Fix})
	}
	var results []sarif.Result
	for _, x := range list {
		for _, f := range x.Findings {
			level := levels[f.Severity]
			if f.Confidence == scan.Unsure {
				level = sarif.Note
			}
			results = append(results, sarif.Result{Rule: f.Rule, Level: level, Text: f.Title + ": " + f.Excerpt + ". Fix: " + f.Fix + ".", Path: filepath.Join(x.Path, filepath.FromSlash(f.File)), Line: f.Line, Column: f.Column, ID: f.ID})
		}
	}
	return sarif.Document("metier scan", "metier "+buildVersion(), rules, results)
}

// showScan prints a report as text.
func (a *app) showScan(x engine.Scanned, notes bool) {
	fmt.Fprintf(a.Out, "%s: %s (%s confidence; %d%% of %s read)\n", x.Verdict, oneLine(x.Path), x.Confidence, x.Coverage.Percent(), plural.Of(x.Coverage.Files, "file"))
	hidden := a.showScanFindings(x.Findings, notes)
	if hidden > 0 {
		fmt.Fprintf(a.Out, "  %s of low severity or confidence; print them with --notes\n", plural.Of(hidden, "finding"))
	}
	if x.Accepted > 0 {
		fmt.Fprintf(a.Out, "  %s accepted by the baseline\n", plural.Of(x.Accepted, "finding"))
	}
	if len(x.Blast) > 0 {
		var can []string
		for _, b := range x.Blast {
			can = append(can, fmt.Sprintf("%s (%s:%d)", b.Name, oneLine(b.File), b.Line))
		}
		fmt.Fprintf(a.Out, "  can: %s\n", strings.Join(can, ", "))
	}
	for _, s := range x.Coverage.Skipped {
		fmt.Fprintf(a.Out, "  not read: %s: %s\n", oneLine(s.File), s.Reason)
	}
	if n := x.Coverage.Unlisted; n > 0 {
		fmt.Fprintf(a.Out, "  not read: %d more\n", n)
	}
}

// showScanFindings prints the findings that decide, or all of them, and returns how many it leaves out.
// Findings of the same rule in a file are printed once, with their lines.
func (a *app) showScanFindings(found []scan.Finding, notes bool) (hidden int) {
	printed := map[[3]string]bool{}
	for i, f := range found {
		key := [3]string{f.Rule, f.File, string(f.Confidence)}
		switch {
		case !notes && !f.Decides():
			hidden++
			continue
		case printed[key]:
			continue
		}
		printed[key] = true
		at := oneLine(f.File)
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", at, f.Line, f.Column)
		}
		fmt.Fprintf(a.Out, "  %s %s: %s [%s, %s confidence]\n    %s\n", f.Severity, at, f.Title, f.Rule, f.Confidence, f.Excerpt)
		var more []string
		for _, o := range found[i+1:] {
			if key == [3]string{o.Rule, o.File, string(o.Confidence)} {
				more = append(more, strconv.Itoa(o.Line))
			}
		}
		if len(more) > 0 {
			fmt.Fprintf(a.Out, "    also in %s %s\n", map[bool]string{true: "line", false: "lines"}[len(more) == 1], strings.Join(more, ", "))
		}
		fmt.Fprintf(a.Out, "    fix: %s\n", f.Fix)
	}
	return hidden
}

// folderName returns the name of the folder at a path.
func (a *app) folderName(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	return filepath.Base(path)
}

// maxBaseline is the largest baseline that is read, in bytes.
const maxBaseline = 16 << 20

func (a *app) readBaseline(path string) (b scan.Baseline, err error) {
	if path == "" {
		return b, nil
	}
	unreadable := func(err error) error {
		return wrong("baseline_unreadable", "write a baseline with 'metier scan PATH --write-baseline FILE'", "baseline %s: %v", oneLine(path), err)
	}
	full := a.inDir(path)
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, unreadable(errors.New("the file does not exist"))
	case err != nil:
		return b, unreadable(err)
	case info.Size() > maxBaseline || !info.Mode().IsRegular():
		return b, unreadable(fmt.Errorf("not a regular file of at most %d bytes", maxBaseline))
	}
	data, err := os.ReadFile(full)
	if err == nil {
		b, err = scan.ParseBaseline(data)
	}
	if err != nil {
		return b, unreadable(err)
	}
	return b, nil
}

func (a *app) inDir(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.Dir, path)
}

func (a *app) saveBaseline(path string, b scan.Baseline) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err == nil {
		err = os.WriteFile(a.inDir(path), append(data, '\n'), 0o644)
	}
	if err != nil {
		return &metier.Error{Op: "scan", Path: path, Kind: metier.Unavailable, Code: "baseline_unwritable", Hint: "choose a file in a writable folder", Err: err}
	}
	if !a.json {
		fmt.Fprintf(a.Err, "wrote %s to %s\n", plural.Of(len(b.Accepted), "finding"), oneLine(path))
	}
	return nil
}
