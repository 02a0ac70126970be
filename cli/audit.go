package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"metier/event"
	"metier/internal/distinct"
	"metier/internal/nearest"
	"metier/internal/plural"
	"metier/record"
	"metier/run"
)

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", GroupID: "proof", Short: "Verify, print, and replay a run's record",
		Long: "Check and print a run's record. These commands do not change anything.", Args: cobra.NoArgs,
		RunE: a.help}
	c.AddCommand(a.auditVerifyCommand(), a.auditShowCommand(), a.auditReplayCommand())
	return c
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var place runPlace
	c := &cobra.Command{Use: "verify RUN", Short: "Check that a record has not been changed",
		Long: `Verify checks the whole record: the chain of entries, the content that the entries
refer to, the records of subagents, the artifacts, and the heads recorded outside
the workspace. Without recorded heads, verify cannot detect a log that was cut off,
extended, or rewritten, and prints a warning.

Exit 0: the record is unchanged. 5: it was altered, truncated, or extended.` + aboutRun,
		Example: "  metier audit verify latest\n  metier audit verify .metier/runs/20260131-101500-1a2b3c4d --json",
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			root, id, err := a.findOwn(place, args[0])
			if err != nil {
				return err
			}
			r, err := run.VerifyAt(c.Context(), root, id, a.engine().RunOptions())
			if err != nil {
				return err
			}
			if err := a.put(r, func() { a.showVerify(r) }); err != nil {
				return err
			}
			return r.Err(args[0], "metier run --resume")
		}}
	place.flags(c)
	a.completions(c)
	return c
}

func (a *app) showVerify(r run.VerifyReport) {
	verdict := "verified"
	if !r.OK {
		verdict = "fails verification"
	}
	states := map[string]int{}
	for _, s := range r.Artifacts {
		states[s]++
	}
	var files []string
	for _, s := range []string{"equal", "stale", "missing", "differs", "unknown"} {
		n := states[s]
		if n > 1 && s == "differs" {
			s = "differ"
		}
		if n > 0 {
			files = append(files, fmt.Sprintf("%d %s", n, s))
		}
	}
	heads := "none: no head of this record is stored outside the workspace"
	if r.HasHeads {
		heads = plural.Of(r.Record.Heads+r.Record.Beyond, "head") + " stored outside the workspace"
	}
	if n := r.Record.Beyond; n > 0 {
		heads += fmt.Sprintf(", %d for missing entries", n)
	}
	t := table{}
	t.add("run", r.ID)
	t.add("record", verdict)
	t.add("entries", plural.Thousands(int64(r.Record.Entries)))
	t.add("head", fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash))
	t.add("content", fmt.Sprintf("%s, %d erased, %d altered", plural.Of(r.Record.Blobs.Checked, "blob"), r.Record.Blobs.Erased, r.Record.Blobs.Altered))
	t.add("artifacts", cmp.Or(strings.Join(files, ", "), "not checked"))
	t.add("anchors", heads)
	t.print(a.Out, "")
	a.section("problems", problemRows(r.Problems))
	if r.Record.More > 0 {
		fmt.Fprintf(a.Out, "  and %s more\n", plural.Thousands(int64(r.Record.More)))
	}
	a.section("warnings", problemRows(r.Warnings))
}

func (a *app) auditShowCommand() *cobra.Command {
	var place runPlace
	var kind string
	var from uint64
	var normalized bool
	c := &cobra.Command{Use: "show RUN", Short: "Print a record's entries, one per line",
		Long: `Show prints the number, time, type, and facts of each entry. Facts are IDs,
digests, codes, and sizes. To print the conversation itself, use
'metier runs show RUN --transcript'.

With --normalized, it prints JSON lines without times, hashes, and random IDs, so
that diff shows where two runs differ.` + aboutRun,
		Example: "  metier audit show latest\n  metier audit show latest --type skill\n  metier audit show latest --from 40 --json\n  metier audit show latest --normalized > run.jsonl",
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if normalized && (a.json || kind != "" || from != 1) {
				return usage(c, errors.New("--normalized prints the whole record in its own format: it cannot be combined with --json, --type, or --from"))
			}
			f, err := a.lookAtVouched(c.Context(), place, args[0], false)
			if err != nil {
				return err
			}
			defer func() { err = closed(f.Close(), err) }()
			a.noteLatest(args[0], f.ID())
			if normalized {
				b, err := run.Normalize(c.Context(), f.Log(), f.Blobs())
				if err != nil {
					return err
				}
				_, err = a.Out.Write(harmless(b))
				return err
			}
			return a.showEntries(c.Context(), f, kind, from)
		}}
	place.flags(c)
	c.Flags().StringVar(&kind, "type", "", "show only entries of this `type` or group of types, such as skill.activated or skill")
	c.Flags().Uint64Var(&from, "from", 1, "`number` of the first entry to show")
	c.Flags().BoolVar(&normalized, "normalized", false, "print JSON lines that can be compared with another run's")
	a.completions(c)
	return c
}

// eventTypes returns the entry types this build knows.
func eventTypes() []string {
	var out []string
	for _, e := range event.All() {
		out = append(out, e.Type())
	}
	slices.Sort(out)
	return out
}

// families returns the first parts of the types.
func families() []string {
	var out []string
	for _, t := range eventTypes() {
		f, _, _ := strings.Cut(t, ".")
		out = append(out, f)
	}
	return slices.Compact(out)
}

func ofType(t, kind string) bool { return kind == "" || t == kind || strings.HasPrefix(t, kind+".") }

func (a *app) showEntries(ctx context.Context, f *run.Folder, kind string, from uint64) error {
	head, err := f.Log().Head(ctx)
	if err != nil {
		return err
	}
	list := []record.Entry{}
	for en, err := range f.Log().Read(ctx, max(from, 1)) {
		if err != nil {
			return err
		}
		if ofType(en.Type, kind) {
			list = append(list, en)
		}
	}
	if len(list) == 0 && !slices.ContainsFunc(eventTypes(), func(t string) bool { return ofType(t, kind) }) {
		return wrong("type_unknown", "types: "+strings.Join(eventTypes(), ", "), "there is no type %q%s", kind, nearest.Hint(kind, distinct.Of(append(families(), eventTypes()...))))
	}
	if a.json {
		return a.document(map[string]any{"id": f.ID(), "head": head, "entries": list})
	}
	if len(list) == 0 {
		fmt.Fprintf(a.Err, "note: no entry matches; the record's last entry is %d\n", head.Seq)
	}
	width, columns := len(strconv.FormatUint(head.Seq, 10)), a.columns()
	for _, en := range list {
		line := fmt.Sprintf("%*d  %s  %-24s %s", width, en.Seq, en.At.Local().Format("2006-01-02 15:04:05.000"), en.Type, a.facts(en.Data))
		line = strings.TrimRight(oneLine(line), " ")
		if columns == 0 {
			fmt.Fprintln(a.Out, line)
			continue
		}
		indent := strings.Repeat(" ", width+2)
		fmt.Fprintln(a.Out, strings.Join(wrap(line, columns, columns-len(indent)), "\n"+indent))
	}
	return nil
}

// facts formats the data of an entry as name=value pairs, in the order of the record. It omits
// empty strings and null.
func (a *app) facts(data json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out []string
	if err := a.flatten(d, "", &out); err != nil {
		return strconv.Quote(string(data))
	}
	return strings.Join(out, " ")
}

// flatten walks one JSON value, keeping the order of its members.
func (a *app) flatten(d *json.Decoder, name string, out *[]string) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		for i := 0; d.More(); i++ {
			part := name + "[" + strconv.Itoa(i) + "]"
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				part = strings.TrimPrefix(name+"."+fmt.Sprint(key), ".")
			}
			if err := a.flatten(d, part, out); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	case string:
		if v == "" {
			return nil
		}
		v = a.short(v)
		if strings.ContainsAny(v, " \"=") || v != oneLine(v) {
			v = strconv.Quote(v)
		}
		*out = append(*out, name+"="+v)
	case nil:
	default:
		*out = append(*out, fmt.Sprintf("%s=%v", name, v))
	}
	return nil
}

func (a *app) auditReplayCommand() *cobra.Command {
	var place runPlace
	var roots []string
	c := &cobra.Command{Use: "replay RUN", Short: "Compare the active skills of a run with the skills on disk",
		Long: `Replay rebuilds the state of a run from its record, checks the chain, the heads,
and every digest, and prints the skills that were active at the end. It looks up
each skill in the roots that the run used, and prints every hash that has changed.

Exit 0: the active skills are unchanged. 5: a skill or the record has changed.` + aboutRun,
		Example: "  metier audit replay latest\n  metier audit replay latest --skills-root ../skills",
		Args:    oneRun,
		RunE: func(c *cobra.Command, args []string) (err error) {
			f, err := a.lookAt(place, args[0], false)
			if err != nil {
				return err
			}
			defer func() { err = closed(f.Close(), err) }()
			r, note, err := a.engine().Replay(c.Context(), f, roots)
			if err != nil {
				return err
			}
			if err := a.put(r, func() { a.showReplay(r, note) }); err != nil {
				return err
			}
			return r.Err()
		}}
	place.flags(c)
	c.Flags().StringArrayVar(&roots, "skills-root", nil, "search for the skills in this `folder` instead (repeatable)")
	a.completions(c)
	return c
}

func (a *app) showReplay(r run.ReplayReport, note string) {
	verdict := "reproduced"
	if !r.OK {
		verdict = "not reproduced"
	}
	t := table{}
	t.add("run", r.ID)
	t.add("active set", fmt.Sprintf("%s, %s", plural.Of(len(r.Active), "skill"), verdict))
	t.add("head", fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash))
	t.print(a.Out, "")
	var rows [][]string
	for _, s := range r.Active {
		rows = append(rows, []string{s.SkillID, s.State, s.Tier, loadedBy(s.ActivationSource), a.short(s.Hash), "original text " + strings.Replace(s.Original, "held", "kept", 1)})
	}
	a.section("active", rows)
	rows = nil
	for _, d := range r.Changed {
		rows = append(rows, []string{d.SkillID, filepath.ToSlash(d.Path), "was " + a.short(d.Was), "is " + cmp.Or(a.short(d.Now), "gone")})
	}
	a.section("changed", rows)
	rows = nil
	for _, p := range r.Problems {
		rows = append(rows, []string{string(p.Code), fmt.Sprintf("#%d", p.Seq), p.Detail})
	}
	a.section("problems", rows)
	if note != "" {
		fmt.Fprintf(a.Out, "\nnote: %s\n", asFlags(note))
	}
}
