package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/engine"
	"metier/internal/agentdirs"
	"metier/internal/termtext"
	"metier/model/provider"
	"metier/policy"
	"metier/run"
	"metier/settings"
)

type completion = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completions adds completion of arguments and of known flags to a command.
func (a *app) completions(c *cobra.Command) {
	words := func(w ...string) completion { return cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp) }
	known := map[string]completion{
		"profile":                       words(settings.Profiles()...),
		"set":                           completeSet,
		"agent":                         words(agentdirs.Names()...),
		"skill":                         a.completeSkills,
		"deny-skill":                    a.completeSkills,
		"allow-tool":                    words(append(config.ToolNames(), engine.ToolsDefault)...),
		"format":                        words(formatText, formatJSON, formatSARIF),
		"dir":                           folders,
		"mode":                          words(agent.Modes()...),
		"output-mode":                   words("operator", "batch"),
		"on-approval":                   words(approvalDeny, approvalWait),
		"on-drift":                      words("fail", "warn", "reload", "ignore"),
		"enforcement-mode":              words(enforcementModes...),
		"prompt-slot-role":              words(string(policy.DirectCommand), string(policy.Context), string(policy.Quote)),
		"model":                         completeModels,
		"resume":                        a.completeRuns,
		"type":                          words(eventTypes()...),
		"state":                         words(states...),
		"source":                        words(tierNames()...),
		"tier":                          completeTier,
		"workspace":                     folders,
		"cwd":                           folders,
		"skills-root":                   folders,
		"endpoint":                      completeEndpoint,
		"harness":                       folders,
		"allow-subagent-profile":        a.completeSubagents,
		"subagent-profiles":             folders,
		"layout":                        words("auto", "v1", "v2"),
		"artifact-root":                 folders,
		"sandbox":                       words(engine.Backends()...),
		"browser-endpoint":              words("http://127.0.0.1:9222"),
		"browser-until":                 words("20m", "1h"),
		"skill-script-execution-target": words("sandbox"),
		"level":                         words(levelNames()...),
		"scope":                         words(policy.ScopeOnce, policy.ScopeSession, policy.ScopeAlways),
	}
	for _, name := range []string{"prompt", "max-turns", "max-tokens", "limit", "browser-origin", "allow-host", "timeout", "question", "from", "since"} {
		known[name] = words() // and no files
	}
	for name, f := range known {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, f) // fails only for a flag that is not there, or twice
		}
	}
	if c.Flags().Lookup("file") != nil {
		_ = c.MarkFlagFilename("file", "yaml", "yml")
	}
	if c.Flags().Lookup("policy") != nil {
		_ = c.MarkFlagFilename("policy", "yaml", "yml")
	}
	first, _, _ := strings.Cut(c.Use, " ")
	switch {
	case strings.Contains(c.Use, " RUN"):
		c.ValidArgsFunction = firstArg(1, a.completeRuns)
	case strings.Contains(c.Use, " NAME|PATH"):
		c.ValidArgsFunction = firstArg(1, a.completeSkillOrPath)
	case strings.Contains(c.Use, "[PROFILE]"):
		c.ValidArgsFunction = firstArg(1, words(settings.Profiles()...))
	case first == "diff":
		c.ValidArgsFunction = firstArg(2, words(settings.Profiles()...))
	default:
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// completeTier completes tiers. Not all of them can be given to a skill.
func completeTier(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c.Flags().Lookup("revoke") != nil {
		return []cobra.Completion{string(policy.User), string(policy.Project)}, cobra.ShellCompDirectiveNoFileComp
	}
	return tierNames(), cobra.ShellCompDirectiveNoFileComp
}

func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// firstArg completes only the first n arguments.
func firstArg(n int, f completion) completion {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, typed)
	}
}

// starting returns the completions that start with what was typed and are plain words, without
// duplicates. A shell inserts the common prefix of several unquoted, including descriptions, and
// evaluates the line to complete it further.
func starting(all []cobra.Completion, typed string) []cobra.Completion {
	times := map[string]int{}
	for _, s := range all {
		times[wordOf(s)]++
	}
	return slices.DeleteFunc(all, func(s cobra.Completion) bool {
		word := wordOf(s)
		return !strings.HasPrefix(word, typed) || !termtext.Plain(word) || times[word] > 1
	})
}

// wordOf returns a completion without its description.
func wordOf(s cobra.Completion) string {
	word, _, _ := strings.Cut(s, "\t")
	return word
}

// completeSet completes the names of settings, then their values.
func completeSet(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	name, _, hasValue := strings.Cut(typed, "=")
	for _, r := range settings.Table() {
		if !hasValue {
			out = append(out, cobra.CompletionWithDesc(r.Name+"=", oneLine(r.Doc)))
			continue
		}
		if r.Name != name || r.Shape == settings.ShapeNumber {
			continue
		}
		for _, v := range allValues(r) {
			out = append(out, cobra.CompletionWithDesc(name+"="+v, oneLine(r.Meaning[v])))
		}
	}
	if hasValue {
		return starting(out, typed), cobra.ShellCompDirectiveNoFileComp
	}
	return starting(out, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeModels completes the provider. The models of a provider are unknown.
func completeModels(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasPrefix(typed, "scripted:") {
		return nil, cobra.ShellCompDirectiveDefault // a file
	}
	var out []cobra.Completion
	for _, p := range provider.All() {
		out = append(out, p.Name+":")
		if p.Model != "" {
			out = append(out, p.Name+":"+p.Model)
		}
	}
	return starting(append(out, "scripted:"), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeRuns completes the ids of runs, newest first, and latest.
func (a *app) completeRuns(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const keep = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if strings.ContainsAny(typed, `/\`) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	root, err := a.runsFolder(runPlace{workspace: flagText(c, "workspace"), artifacts: flagText(c, "artifact-root")})
	if err != nil {
		return nil, keep
	}
	list, err := run.List(c.Context(), root, nil)
	if err != nil || len(list) == 0 {
		return nil, keep
	}
	out := []cobra.Completion{cobra.CompletionWithDesc(latest, latestOf(c))}
	run.NewestFirst(list)
	for _, s := range list {
		if run.CheckID(s.ID) == nil {
			out = append(out, cobra.CompletionWithDesc(s.ID, oneLine(cmp.Or(s.Status, "unreadable")+" "+s.Model)))
		}
	}
	return starting(out, typed), keep
}

// completeSkills completes the names of the skills that a run would find and a user may invoke.
func (a *app) completeSkills(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeWhich(func(sk metier.Skill) bool { return sk.State == metier.Loaded && sk.UserInvocable })(c, args, typed)
}

// completeScript completes a skill, then its scripts.
func (a *app) completeScript(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return a.completeSkills(c, args, typed)
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveDefault // the script's own arguments
	}
	sh, err := a.openIndex(c.Context(), completedPlace(c))
	if err != nil {
		return nil, none
	}
	sk, err := sh.Snapshot.Find(args[0])
	if err != nil {
		return nil, none
	}
	if sk, err = sh.Snapshot.Index(c.Context(), sk); err != nil {
		return nil, none
	}
	var out []cobra.Completion
	for _, r := range sk.Resources {
		if strings.HasPrefix(r.Path, "scripts/") {
			out = append(out, r.Path)
		}
	}
	return starting(out, typed), none
}

// completedPlace returns the location of skills according to the flags typed so far.
func completedPlace(c *cobra.Command) skillLocation {
	var place skillLocation
	place.workspace, place.profile = flagText(c, "workspace"), flagText(c, "profile")
	place.set, _ = c.Flags().GetStringArray("set") // a command without the flag sets nothing
	place.roots, _ = c.Flags().GetStringArray("skills-root")
	return place
}

// completeWhich completes the names of some of the skills.
func (a *app) completeWhich(is func(metier.Skill) bool) completion {
	return func(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		sh, err := a.openIndex(ctx, completedPlace(c))
		if err != nil {
			return nil, none
		}
		var out []cobra.Completion
		for _, sk := range sh.Snapshot.All() {
			if word := completing(sh.Snapshot, sk); is(sk) && word != "" {
				out = append(out, cobra.CompletionWithDesc(word, oneLine(sk.Description)))
			}
		}
		return starting(out, typed), none
	}
}

// completing returns the word that identifies a skill on the command line: its name or, if that is
// not a single word, its slug, unless that is the name of another skill.
func completing(snap *metier.Snapshot, sk metier.Skill) string {
	if termtext.Plain(sk.Name) {
		return sk.Name
	}
	if found, err := snap.Find(sk.Slug); err == nil && found.ID == sk.ID {
		return sk.Slug
	}
	return ""
}

// completeSkillOrPath completes names. If the input looks like a path, it completes paths.
func (a *app) completeSkillOrPath(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.ContainsAny(typed, `/\.`) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeSkills(c, args, typed)
}

// flagText returns the value of a flag, or "" if the command has no such flag.
func flagText(c *cobra.Command, name string) string {
	if f := c.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
