package runtimes

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"metier/internal/shell"
)

// onStdin passes the script to the interpreter on standard input, so that exactly the checked bytes
// run and no other file is available. A script that includes a helper by a relative path is
// therefore rejected before it starts.
func (r Request) onStdin(run runtime, line string, flags []string) (Command, error) {
	c := Command{Runtime: run.name}
	switch run.name {
	case "bash":
		if line == "" {
			return c, unsupported("start it with #!/bin/bash", "it has no bash shebang")
		}
		if len(flags) > 0 {
			return c, unsupported("use set inside the script", "the bash shebang has arguments: %s", strings.Join(flags, " "))
		}
		if len(r.Code) > shell.MaxSources {
			return c, unsupported("shorten it; the setting script_stage has another way", "it has %d bytes, and at most %d can be looked through for files it includes", len(r.Code), shell.MaxSources)
		}
		sources, err := shell.Sources(string(r.Code))
		if err != nil {
			return c, unsupported("", "bash would not understand it: %v", err)
		}
		computed := slices.Contains(sources, shell.Dynamic)
		sources = slices.DeleteFunc(sources, func(s string) bool { return s == shell.Dynamic })
		if computed && ofScript.Match(r.Code) { // it would be a file in the working folder
			return c, unsupported("put everything into the one file", "it includes a file by the path of the script, and nothing beside it is there when it runs")
		}
		if i := slices.IndexFunc(sources, relative); i >= 0 {
			return c, unsupported("put everything into the one file", "it includes %q, and nothing beside it is there when it runs", sources[i])
		}
	case "deno":
		if from := imports(string(r.Code)); len(from) > 0 {
			return c, unsupported("put everything into the one file", "it imports %q, and nothing beside it is there when it runs", from[0])
		}
		c.Env = run.env
	default:
		return c, unsupported("the setting script_stage has another way", "%s cannot be run from standard input; bash and deno can", cmp.Or(run.name, executable))
	}
	found, err := r.find(run)
	if err != nil {
		return c, err
	}
	if run.name == "bash" {
		c.Argv = slices.Concat([]string{found, "-s", "--"}, r.Args)
	} else { // the configuration in the working folder could replace what the script imports
		c.Argv = slices.Concat([]string{found, "run", "--no-config"}, denoFlags(flags), []string{"-"}, r.Args)
	}
	return c, nil
}

// ofScript matches what a script uses to determine its own path.
var ofScript = regexp.MustCompile(`BASH_SOURCE|SKILL_DIR|SKILL_SCRIPT|\$\{?0\b`)

// relative reports whether an include is relative to the script: any path that is not absolute.
func relative(source string) bool { return !strings.HasPrefix(source, "/") }

// denoFlags returns the permissions and other flags in a shebang with deno run. Without run, it
// returns none.
func denoFlags(words []string) []string {
	if len(words) == 0 || words[0] != "run" {
		return nil
	}
	return words[1:]
}
