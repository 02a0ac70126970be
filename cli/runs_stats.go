package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"metier/internal/plural"
	"metier/run"
)

// statsEvery is how many runs are read between two progress messages.
const statsEvery = 1000

func (a *app) runsStatsCommand() *cobra.Command {
	var place runPlace
	var skill, since string
	var limit int
	c := &cobra.Command{Use: "stats", Short: "Count how often each skill was loaded, read, and run",
		Long: `Stats reads all records. For each skill, it counts how often its instructions were
loaded, its files were read, and its scripts were run, and how often each of these
failed. It also shows the number of runs and the last use. A use is a load, a
read, or a script that ran. Records that cannot be read, lost entries, or were
changed are listed but not counted, and neither are entries that no recorded head
covers. The value of --since is a day (2026-01-31), a time (2026-01-31T15:04:05Z),
or a duration before now (90m, 12h, 30d).`,
		Example: "  metier runs stats\n  metier runs stats --since 30d\n  metier runs stats --skill greet --json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return wrong("usage", "use 0 for the default limit", "--limit cannot be negative")
			}
			o := run.StatsOptions{Skill: skill, Limit: limit, Options: a.engine().RunOptions()}
			if since != "" {
				var err error
				if o.Since, err = moment(since, a.now()); err != nil {
					return err
				}
			}
			if !a.json {
				o.Progress = func(done, all int) {
					if done%statsEvery == 0 && done < all {
						fmt.Fprintf(a.Err, "%s of %s read\n", plural.Thousands(int64(done)), plural.Of(all, "run"))
					}
				}
			}
			root, err := a.runsFolder(place)
			if err != nil {
				return err
			}
			s, err := run.Count(c.Context(), root, o)
			if err != nil {
				return err
			}
			return a.put(s, func() {
				a.showStats(s)
				if skill != "" && len(s.Skills) == 0 {
					fmt.Fprintf(a.Err, "note: no run used a skill named %s\n", oneLine(skill))
				}
			})
		}}
	place.flags(c)
	c.Flags().StringVar(&skill, "skill", "", "count only the `skill` with this name or ID")
	c.Flags().StringVar(&since, "since", "", "count only uses since this `time`: a day, a time, or a duration before now")
	c.Flags().IntVar(&limit, "limit", 0, "maximum `number` of runs to read, newest first (default 10,000)")
	a.completions(c)
	return c
}

// moment parses a date, a time, or a duration before now.
func moment(s string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	ago, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n > 0 && n < 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if err != nil || ago <= 0 {
		return time.Time{}, wrong("usage", "use a day (2026-01-31), a time (2026-01-31T15:04:05Z), or a duration before now (90m, 12h, 30d)", "--since %q is not a time", s)
	}
	return now.Add(-ago), nil
}

func (a *app) showStats(s run.Stats) {
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return plural.Thousands(int64(n))
	}
	t := table{heads: []string{"SKILL", "USES", "LOADED", "FAILED", "READS", "READ ERRORS", "SCRIPTS", "SCRIPT FAILURES", "RUNS", "VERSIONS", "LAST USED", "ID", "DIGEST"}, right: []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, width: a.columns()}
	for _, u := range s.Skills {
		versions := ""
		if u.Versions > 1 {
			versions = count(u.Versions)
		}
		name := oneLine(u.Name)
		if t.width > 0 {
			name = cutTo(name, max(t.width/4, 20))
		}
		t.add(name, count(u.Uses), plural.Thousands(int64(u.Activations)), count(u.Failures), plural.Thousands(int64(u.Reads)), count(u.ReadErrors), count(u.Scripts), count(u.ScriptFails), plural.Thousands(int64(u.Runs)), versions,
			localTime(u.LastUsed), u.ID, a.short(u.Digest))
	}
	if len(s.Skills) > 0 {
		t.print(a.Out, "")
	}
	said := []string{plural.Of(s.Runs, "run"), plural.Of(len(s.Skills), "skill")}
	if s.Unknown > 0 {
		said = append(said, plural.Of(s.Unknown, "load")+" of an unknown skill")
	}
	if s.Omitted > 0 {
		said = append(said, plural.Of(s.Omitted, "older run")+" left out (--limit)")
	}
	fmt.Fprintln(a.Err, strings.Join(said, ", "))
	const most = 10
	for i, p := range s.Problems {
		if i == most {
			fmt.Fprintf(a.Err, "  and %s more; --json lists all\n", plural.Thousands(int64(len(s.Problems)-most)))
			break
		}
		fmt.Fprintf(a.Err, "not counted: %s: %s: %s\n", oneLine(p.Run), p.Code, oneLine(p.Detail))
	}
}
