package shell

import "strings"

// gitCommands are the commands of git, and common ones that are installed with it.
var gitCommands = set(`add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore
	check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick citool clean clone column commit
	commit-graph commit-tree config count-objects credential credential-cache credential-cache--daemon credential-store describe
	diagnose diff diff-files diff-index diff-pairs diff-tree difftool difftool--helper fast-export fast-import fetch fetch-pack
	filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects fsmonitor--daemon gc get-tar-commit-id grep
	gui hash-object help history hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers
	last-modified log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-octopus
	merge-one-file merge-ours merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree merge-tree
	mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id pickaxe prune
	prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote remote-ext remote-fd repack replace
	replay repo request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shell shortlog show show-branch
	show-index show-ref sparse-checkout stage stash status stripspace submodule submodule--helper survey svn switch symbolic-ref tag
	unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-archive--writer upload-pack url-parse
	var verify-commit verify-pack verify-tag version web--browse whatchanged worktree write-tree
	absorb annex filter-repo flow lfs`)

// unknownToGit reports whether the subcommand of git in these words is not a known one. It may then
// be an alias, or a misspelled command, which git can correct without starting another program.
func unknownToGit(words []word) bool {
	flags, valued := set(before["git"].flags), set(before["git"].valued)
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case !w.known:
			return true
		case w.text == "-c" || w.text == "--config-env" || valued[w.text]:
			i++
		case flags[w.text] || strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "="):
		case strings.HasPrefix(w.text, "-"):
			return false // help, or an option whose value is unknown: all that it may be is added elsewhere
		default:
			return !gitCommands[w.text]
		}
	}
	return false
}
