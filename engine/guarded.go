package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"metier/config"
	"metier/harness"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/sandbox"
	"metier/sandbox/quarantine"
	"metier/skillroots"
)

// authority lists the paths in a project, with slashes, from which metier commands, other agents
// and git read skills, configuration and hooks. HEAD is one because git takes any folder with HEAD,
// objects and refs for a repository, and prefers it to the .git of a folder above.
func authority() []string {
	return append([]string{config.ProjectFile, LockFile, HarnessLockFile, SkillsLockFile, skillroots.Harnesses, harness.File, ".git", "HEAD"}, agentdirs.ProjectFolders()...)
}

// projectDirs lists the folders of a workspace in which metier commands may run: the workspace, the
// folders down to the working folder, and those down to nested projects in which metier has run.
func (e *Engine) projectDirs(workspace, cwd string) []string {
	dirs := []string{workspace}
	down := func(to string) {
		for dir := to; dir != workspace && confine.Within(workspace, dir); dir = filepath.Dir(dir) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	down(filepath.Join(workspace, filepath.FromSlash(cwd)))
	for _, p := range e.projects() {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			down(p)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// guarded lists the host paths of a workspace that programs must not change, and the records, which
// they must not read either.
func (e *Engine) guarded(workspace, cwd string) (readOnly, hidden []string) {
	for _, dir := range e.projectDirs(workspace, cwd) {
		for _, p := range authority() {
			readOnly = append(readOnly, filepath.Join(dir, filepath.FromSlash(p)))
		}
		hidden = append(hidden, filepath.Join(dir, ".metier"))
	}
	for _, agent := range agentdirs.All() { // the home may be in the workspace
		readOnly = append(readOnly, e.Finder().HomeFolders(agent)...)
	}
	return readOnly, hidden
}

// skillFolders lists the skill folders of all agents.
func (e *Engine) skillFolders(workspace, cwd string) (out []string) {
	for _, dir := range e.projectDirs(workspace, cwd) {
		for _, p := range agentdirs.ProjectFolders() {
			out = append(out, filepath.Join(dir, filepath.FromSlash(p)))
		}
	}
	for _, agent := range agentdirs.All() {
		out = append(out, e.Finder().HomeFolders(agent)...)
	}
	return out
}

// journal is where the processes of this user record what they guard while programs run. It is nil
// if there is no state folder.
func (e *Engine) journal() *quarantine.Journal {
	if e.Env.StateDir() == "" {
		return nil
	}
	return quarantine.NewJournal(filepath.Join(e.Env.StateDir(), "guards"))
}

// sweep moves aside what programs created while their metier process was killed or stopped. It
// fails if that is not possible in this workspace, or in one above or below it.
func (e *Engine) sweep(ctx context.Context, workspace string) error {
	moved, err := e.journal().Sweep(ctx, workspace)
	e.noteMoved(moved)
	for _, m := range moved {
		if m.Err != nil && (confine.Within(workspace, m.Workspace) || confine.Within(m.Workspace, workspace)) {
			err = errors.Join(err, fmt.Errorf("a program was killed in %s, and what it created cannot be checked: %w", m.Workspace, m.Err))
		}
	}
	return err
}

// Sweep moves aside what programs created while their metier process was killed or stopped, and
// reports what cannot be checked. A command that works in a workspace fails then; see Enter.
func (e *Engine) Sweep(ctx context.Context) {
	if e.o.ReadOnly {
		return
	}
	here, err := e.WorkspaceDir("")
	if err != nil {
		here = "" // there may be entries about other folders
	}
	if err := e.sweep(ctx, here); err != nil && ctx.Err() == nil {
		e.o.Notify(Notice{CodeMoved, Warning, termtext.Line(err.Error())})
	}
}

// Claim announces that this command creates a path.
func (e *Engine) Claim(ctx context.Context, path string) error {
	moved, err := e.journal().Claim(ctx, path)
	e.noteMoved(moved)
	return err
}

// CodeMoved is the code of a notice about what happened at protected paths while a program ran.
const CodeMoved = "quarantined"

// reported is the sandbox of a run. It tells the user of the run what happened at protected paths.
type reported struct {
	sandbox.Sandbox
	run *Run
}

// Run implements [sandbox.Sandbox].
func (s reported) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	res, err := s.Sandbox.Run(ctx, j)
	if j.Workspace != nil {
		s.run.e.repos.created(j.Workspace.Host, res.Repositories)
	}
	if res.Unsearched {
		s.run.notices.once(RepositoriesUnsearched())
	}
	for _, q := range res.Quarantined {
		text := "a program created or removed " + termtext.Line(q.Path) + ", which is protected, and was ended"
		if q.Replaced {
			text = termtext.Line(q.Path) + ", which is protected, was replaced or removed while a program ran, which could then reach what is there; the program was ended"
		}
		if q.Unsafe != "" {
			text = "a program created the git repository " + termtext.Line(path.Dir(q.Path)) + ", which could make git run a program: " + termtext.Line(q.Unsafe)
		}
		if q.To != "" {
			text += "; what was there is " + termtext.Line(q.To) + " now: check it, and rename it if it is yours" + more(q.More)
		}
		s.run.hooks.Notify(Notice{CodeMoved, Warning, text})
	}
	return res, err
}

// more is the end of a notice that also holds for other git repositories.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(". The same holds for %d more new git repositories", n)
}

func (e *Engine) noteMoved(moved []quarantine.Moved) {
	for _, m := range moved {
		if m.Err != nil {
			continue
		}
		p := filepath.Join(m.Workspace, filepath.FromSlash(m.Path))
		switch {
		case m.Restored:
			e.o.Notify(Notice{CodeMoved, Warning, fmt.Sprintf("a program changed the permissions of %s, which is above protected files, while its run was killed or stopped; they are restored", termtext.Line(p))})
			continue
		case m.Unsearched:
			e.o.Notify(Notice{"repositories_unsearched", Warning, fmt.Sprintf("a run in %s was killed, and some git repositories that its programs created there may not be checked: it has too many folders to search, or a folder that cannot be listed. Before you use git in a repository that you did not create, check its .git.", termtext.Line(m.Workspace))})
			continue
		case m.Kept && m.Unsafe != "":
			text := fmt.Sprintf("the git repository %s appeared after a run in that workspace was killed, and it could make git run a program (%s); it stays. Remove it if you did not create it", termtext.Line(filepath.Dir(p)), termtext.Line(m.Unsafe))
			e.o.Notify(Notice{CodeMoved, Warning, text + more(m.More) + "."})
			continue
		case m.Kept:
			e.o.Notify(Notice{CodeMoved, Warning, fmt.Sprintf("%s appeared after a run in that workspace was killed; it stays. Remove it if you did not create it.", termtext.Line(p))})
			continue
		case m.Unsafe != "":
			e.o.Notify(Notice{CodeMoved, Warning, fmt.Sprintf("a program created a git repository at %s, which could make git run a program (%s), while its run was killed; its %s is %s now. Check it, and rename it if it is yours",
				termtext.Line(filepath.Dir(p)), termtext.Line(m.Unsafe), path.Base(m.Path), termtext.Line(filepath.Join(m.Workspace, filepath.FromSlash(m.To)))) + more(m.More) + "."})
			continue
		case m.To == "":
			e.o.Notify(Notice{CodeMoved, Warning, fmt.Sprintf("a program removed the link %s while its run was killed or stopped; it has been made again", termtext.Line(p))})
			continue
		}
		e.o.Notify(Notice{CodeMoved, Warning, fmt.Sprintf("a program created %s, which is protected, while its run was killed or stopped; it is %s now. Remove it, or rename it if it is yours.",
			termtext.Line(p), termtext.Line(filepath.Join(m.Workspace, filepath.FromSlash(m.To))))})
	}
}
