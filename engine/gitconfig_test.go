package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/config"
	"metier/internal/testenv"
	"metier/settings"
)

// protectedIn writes files, where HOME/ and XDG/ are folders outside of the workspace, and returns
// the read-only paths of a workspace there and whether there are more.
func protectedIn(t *testing.T, files map[string]string, links map[string]string, environ ...string) ([]string, bool) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	place := func(name string) string {
		for _, dir := range []string{"HOME", "XDG"} {
			if strings.HasPrefix(name, dir+"/") {
				return filepath.Join(top, filepath.FromSlash(name))
			}
		}
		return filepath.Join(top, "ws", filepath.FromSlash(name))
	}
	for _, dir := range []string{"HOME", "XDG", "ws"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	for name, text := range files {
		p := place(name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(strings.ReplaceAll(text, "WS", filepath.ToSlash(filepath.Join(top, "ws")))), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.Symlink(place(target), place(name)); err != nil {
			testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
		}
	}
	for i, v := range environ {
		environ[i] = strings.ReplaceAll(v, "=HOME/", "="+filepath.Join(top, "HOME")+"/")
	}
	env := append([]string{"HOME=" + filepath.Join(top, "HOME"), "XDG_CONFIG_HOME=" + filepath.Join(top, "XDG"), "GIT_CONFIG_SYSTEM=" + os.DevNull}, environ...)
	e := New(config.NewEnv(env, filepath.Join(top, "ws")), Options{})
	l := Launch{Workspace: filepath.Join(top, "ws"), Tools: []string{settings.ToolBash}}
	p := e.protected(l, config.Operator{}, settings.Discover{MaxDirs: 100}, nil)
	return e.sandboxed(l, protection{paths: p.paths}, nil).ReadOnly, p.partial
}

func TestProtected_FollowsGitsConfiguration(t *testing.T) {
	t.Parallel()
	const core = "[core]\n\thooksPath = "
	for name, c := range map[string]struct {
		files, links map[string]string
		environ      []string
		want         string
	}{
		"a value that continues":      {files: map[string]string{".git/config": core + "h\\\nk\n"}, want: "hk"},
		"a value quoted in part":      {files: map[string]string{".git/config": core + "\"h\"k\n"}, want: "hk"},
		"an absolute path":            {files: map[string]string{".git/config": core + "WS/hk\n"}, want: "hk"},
		"a worktree's configuration":  {files: map[string]string{".git/config": "", ".git/config.worktree": core + "hk\n"}, want: "hk"},
		"an included file's hooks":    {files: map[string]string{".git/config": "[include]\npath = ../shared\n", "shared": core + "hk\n"}, want: "hk"},
		"an included file's includes": {files: map[string]string{".git/config": "[include]\npath = ../a\n", "a": "[include]\npath = b/c\n"}, want: "b/c"},
		"a conditional include":       {files: map[string]string{".git/config": "[includeIf \"onbranch:x\"]\npath = ../a\n", "a": core + "hk\n"}, want: "hk"},
		"the user's configuration":    {files: map[string]string{".git/config": "", "HOME/.gitconfig": core + "hk\n"}, want: "hk"},
		"before there is a .git":      {files: map[string]string{"HOME/.gitconfig": core + "hk\n"}, want: "hk"},
		"in XDG_CONFIG_HOME":          {files: map[string]string{"XDG/git/config": core + "hk\n"}, want: "hk"},
		"the machine's configuration": {files: map[string]string{"HOME/system": core + "hk\n"}, environ: []string{"GIT_CONFIG_SYSTEM=HOME/system"}, want: "hk"},
		"GIT_CONFIG_GLOBAL":           {files: map[string]string{"HOME/other": core + "hk\n"}, environ: []string{"GIT_CONFIG_GLOBAL=HOME/other"}, want: "hk"},
		"below the home folder":       {files: map[string]string{"HOME/.gitconfig": core + "~/link/hk\n"}, links: map[string]string{"HOME/link": "."}, want: "hk"},
		"a link to the configuration": {files: map[string]string{"dotfiles/gitconfig": ""}, links: map[string]string{"HOME/.gitconfig": "dotfiles/gitconfig"}, want: "dotfiles/gitconfig"},
		"a worktree":                  {files: map[string]string{".git/worktrees/wt/gitdir": "WS/wt/.git\n", "wt/a": ""}, want: "wt/.git"},
		"a worktree's hooks":          {files: map[string]string{".git/config": core + "hk\n", ".git/worktrees/wt/gitdir": "../../../wt/.git\n", ".git/worktrees/wt/commondir": "../..\n", "wt/.git": "gitdir: WS/.git/worktrees/wt\n"}, want: "wt/hk"},
		"a clone":                     {files: map[string]string{"a/b/.git/config": ""}, want: "a/b/.git"},
		"a clone's hooks":             {files: map[string]string{"a/b/.git/config": core + "hk\n"}, want: "a/b/hk"},
		"a bare clone":                {files: map[string]string{"a.git/HEAD": "", "a.git/objects/x": "", "a.git/config": ""}, want: "a.git/config"},
		"a link in a folder of hooks": {files: map[string]string{".git/hooks/_/a": "", "tools/a": ""}, links: map[string]string{".git/hooks/_/b": "tools/a"}, want: "tools/a"},
		"a bare repository's":         {files: map[string]string{"HEAD": "", "objects/x": "", "config": core + "hk\n"}, want: "hk"},
		"a bare one's worktrees":      {files: map[string]string{"HEAD": "", "objects/x": "", "config.worktree": core + "hk\n"}, want: "hk"},
		"a bare one's linked hook":    {files: map[string]string{"HEAD": "", "objects/x": "", "hooks/a": "", "tools/a": ""}, links: map[string]string{"hooks/b": "tools/a"}, want: "tools/a"},
	} {
		if got, _ := protectedIn(t, c.files, c.links, c.environ...); !slices.Contains(got, c.want) {
			t.Errorf("%s: %s can be changed", name, c.want)
		}
	}
}

func TestProtected_ReportsGitConfigurationThatIsTooLarge(t *testing.T) {
	t.Parallel()
	if _, partial := protectedIn(t, map[string]string{".git/config": strings.Repeat("#", 2<<20)}, nil); !partial {
		t.Error("a configuration that is not read counts as whole")
	}
	if _, partial := protectedIn(t, map[string]string{".git/config": ""}, nil, "GIT_CONFIG_GLOBAL="+os.DevNull); partial {
		t.Error("a device counts as a configuration that is not read")
	}
}

func TestProtected_ReportsFoldersThatAreNotSearched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
	e.repos.least = 1
	l := Launch{Workspace: dir, Tools: []string{settings.ToolBash}}
	for most, unsearched := range map[int]bool{2: true, 3: false} {
		if got := e.protected(l, config.Operator{}, settings.Discover{MaxDirs: most}, nil).unsearched; got != unsearched {
			t.Errorf("with at most %d folders: unsearched %v", most, got)
		}
	}
}

// The search for repositories that programs created must not find more.
func TestProtected_SearchesForRepositoriesBeyondMaxDirs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
	got := e.protected(Launch{Workspace: dir, Tools: []string{settings.ToolBash}}, config.Operator{}, settings.Discover{MaxDirs: 1}, nil)
	if diff := cmp.Diff([]string{"a/b"}, got.repositories); diff != "" {
		t.Errorf("repositories (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(false, got.unsearched); diff != "" {
		t.Errorf("unsearched (-want +got):\n%s", diff)
	}
}
