package shell

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// runsWritten adds an unknown command if the text may run a file that it writes.
func (s *starter) runsWritten() {
	if s.exports {
		for _, v := range s.values {
			s.environment(v)
		}
	}
	words := s.arguments(writer)
	names := map[string]bool{}
	for name := range s.run {
		names[path.Base(name)] = true
	}
	for base := range names {
		if s.written[base] || s.written[Dynamic] {
			s.unknown()
		}
	}
	if s.mention(words, names) {
		s.unknown()
	}
	for w := range words {
		s.written[path.Base(w)] = true
	}
	if len(names) > 0 && len(s.written) > 0 && (slices.ContainsFunc(s.out, renames) || s.mention(s.arguments(unpacks), s.written)) {
		s.unknown()
	}
	if s.here && len(s.written) > 0 {
		s.unknown()
	}
	if s.searched {
		maps.Copy(s.passed, s.found)
	}
	for name := range s.passed {
		if s.written[path.Base(name)] {
			s.unknown()
		}
	}
}

// arguments returns the arguments of the commands for which is returns true. It has each once, since
// chains of programs repeat them.
func (s *starter) arguments(is func(c []string) bool) map[string]bool {
	words := map[string]bool{}
	for _, c := range s.out {
		if is(c) {
			for _, w := range c[1:] {
				words[w] = true
			}
		}
	}
	return words
}

// mention reports whether a word contains, or may contain, a file's name. It does if the words and names
// are too many to compare.
func (s *starter) mention(words, names map[string]bool) bool {
	if len(words) == 0 || len(names) == 0 {
		return false
	}
	if words[Dynamic] || names[Dynamic] {
		return true
	}
	text := strings.Join(slices.Collect(maps.Keys(words)), Dynamic)
	for name := range names {
		if s.searches += len(text); s.searches > maxSearch || strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// writers are programs that write a file named in their arguments.
var writers = set(`awk bunzip2 busybox bzip2 cp curl dd dos2unix ed ex gawk gunzip gzip iconv install link ln lz4 lzma mawk mv nawk openssl patch rsync scp sed shuf sort sponge tee tree truncate
 uniq unix2dos unlzma unxz unzstd uudecode wget xxd xz yq zstd`)

// writing are the programs that write a file only if an argument begins like this.
var writing = map[string][]string{"find": {"-fprint", "-fls"}, "git": {"-o", "--output"}, "less": {"-o", "-O", "--log-file", "--LOG-FILE"}, "time": {"-o", "-ao", "--output"}}

// writer reports whether a command may write files.
func writer(c []string) bool {
	name := path.Base(c[0])
	return writers[name] || slices.ContainsFunc(c[1:], func(arg string) bool {
		return writing[name] != nil && (arg == Dynamic || slices.ContainsFunc(writing[name], func(option string) bool { return strings.HasPrefix(arg, option) }))
	})
}

// archivers are programs that write files whose names are in other files.
var archivers = set("tar bsdtar cpio pax unzip bsdunzip 7z 7za 7zr ar uudecode git patch")

// spreads handles programs that write files whose names come from their input, not their arguments.
func (s *starter) spreads(base string, fed bool) {
	if base == "split" || base == "csplit" || fed && archivers[base] {
		s.written[Dynamic] = true
	}
}

// renamers give files other names: programs, and commands of git that do so or apply a patch.
var renamers = set("rename rename.ul prename file-rename mmv")
var gitRenamers = set("mv apply am checkout-index update-index")

// renames reports whether a command may give other names to files.
func renames(c []string) bool {
	name := path.Base(c[0])
	return renamers[name] || name == "git" && slices.ContainsFunc(c[1:], func(arg string) bool { return gitRenamers[arg] || arg == Dynamic })
}

// unpacks reports whether a command writes files whose names are in files that its arguments name.
func unpacks(c []string) bool {
	name := path.Base(c[0])
	return name != "git" && archivers[name]
}
