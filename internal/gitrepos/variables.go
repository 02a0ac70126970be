package gitrepos

import "regexp"

// plain matches the variables that clone, init, commit, and similar commands set. They name no
// program, no folder of hooks, and no server from which git gets missing objects on its own, even for
// git status.
var plain = regexp.MustCompile(`^(core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|sparsecheckout|sparsecheckoutcone|worktree|quotepath|longpaths|untrackedcache)` +
	`|extensions\.(objectformat|compatobjectformat|refstorage|worktreeconfig|relativeworktrees|preciousobjects|noop)|remote\.[^\n]*\.(url|fetch|pushurl|push|tagopt|prune|mirror|skipdefaultupdate)` +
	`|branch\.[^\n]*\.(remote|merge|rebase|pushremote|description)|submodule\.(active|[^\n]*\.(url|active|branch|ignore|path))` +
	`|user\.(name|email|signingkey)|init\.defaultbranch|pull\.rebase|push\.default|commit\.gpgsign|index\.[a-z]+|lfs\.repositoryformatversion)$`)
