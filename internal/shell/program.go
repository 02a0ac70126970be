package shell

import (
	"path"
	"slices"
	"strings"
)

// Lines returns the command lines of a program, given one for each of its names, with others that
// they stand for: those of programs with subcommands without the options before the subcommand, and
// those of the programs that one contains or loads, and that of a script that a shell runs.
func Lines(names [][]string) [][]string {
	out := slices.Clone(names)
	for i, argv := range names {
		if len(argv) == 0 {
			continue
		}
		s := newStarter()
		if !s.subcommands(plain(argv), maxOptions) {
			s.starts([]string{argv[0], Dynamic})
		}
		out = append(out, s.out...)
		base := path.Base(argv[0])
		if i == 0 {
			out = append(out, contained(names)...)
		}
		if loads(base) {
			out = append(out, loaded(argv)...)
		}
		if at, runs := script(argv); shells[strings.TrimPrefix(base, "-")] && runs {
			out = append(out, argv[at:])
		}
	}
	return out
}

// loaded returns the programs that a loader may run: the first operand, and the words before it that
// may be the value of an option.
func loaded(argv []string) (out [][]string) {
	for i := 1; i < len(argv); i++ {
		if strings.HasPrefix(argv[i], "-") {
			continue
		}
		out = append(out, argv[i:])
		if !strings.Contains(argv[i], "/") {
			out = append(out, []string{Dynamic}) // a file in the path of the libraries
		}
		if !strings.HasPrefix(argv[i-1], "-") || i == 1 {
			break
		}
	}
	return out
}

// contained returns the programs that a program with others may run: the one in its first argument,
// unless its own name chooses one.
func contained(names [][]string) (out [][]string) {
	called := names[0]
	base := func() string { return strings.TrimPrefix(path.Base(called[0]), "-") }
	for len(called) > 1 && (strings.HasPrefix(base(), "busybox") || strings.HasPrefix(base(), "toybox")) {
		called = called[1:]
		out = append(out, called)
	}
	name := base()
	if len(called) < 2 || coreutils[name] || !slices.ContainsFunc(names, func(l []string) bool { return strings.Contains(path.Base(l[0]), "coreutils") }) {
		return out
	}
	if last := name[1+strings.LastIndexAny(name, "-_. "):]; coreutils[last] { // such as uu-touch
		out = append(out, append([]string{last}, called[1:]...))
	}
	out = append(out, called[1:])
	if _, chosen, is := strings.Cut(called[1], "="); is {
		out = append(out, append([]string{chosen}, called[2:]...))
	}
	return out
}

// maxOptions is the maximum number of words before a subcommand.
const maxOptions = 32

// coreutils are the programs that coreutils contains.
var coreutils = set(`[ arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut
	date dd df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid hostname id install join
	kill link ln logname ls md5sum mkdir mkfifo mknod mktemp more mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv
	printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort
	split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink uptime
	users vdir wc who whoami yes`)

// Loads reports whether a program is a loader of the C library.
func Loads(program string) bool { return loads(path.Base(program)) }

// loads reports whether a program is a loader of the C library, which runs the program in its
// arguments without starting it.
func loads(base string) bool {
	return strings.HasPrefix(base, "ld-") || strings.HasPrefix(base, "ld.so") || strings.HasPrefix(base, "ld64.so") || strings.HasPrefix(base, "libc.musl-")
}

// others are programs that start the program in their arguments and are not in wrappers.
var others = set("doas su runuser chroot unshare nsenter setpriv prlimit flock chrt taskset numactl setarch linux32 linux64 i386 x86_64 aarch64 uname26 watch script strace ltrace parallel entr unbuffer catchsegv less scp sftp ssh busybox toybox coreutils")

// Passes reports whether a program with these arguments starts only what they tell it to, as env,
// xargs, and sh -c do, and not what a file, or the program itself, decides.
func Passes(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	base := strings.TrimPrefix(path.Base(argv[0]), "-") // of a login shell
	_, wraps := wrappers[base]
	_, helps := helped[base]
	switch {
	case wraps, helps, others[base], loads(base), base == "find":
		return true
	case shells[base]:
		_, runs := script(argv)
		return !runs
	case set("awk gawk mawk nawk original-awk sed gsed")[base]:
		return !slices.ContainsFunc(argv[1:], func(w string) bool {
			return strings.HasPrefix(w, "-f") || strings.HasPrefix(w, "--file")
		})
	}
	if _, decides := own[base]; decides {
		s := newStarter()
		words := plain(argv)
		return namesProgram(words) || s.startsNamed(words)
	}
	return false
}

var shells = set("sh bash dash rbash ash ksh ksh93 mksh zsh fish csh tcsh yash posh")

// script returns the index of the file that a shell with these arguments runs. runs is false if it
// runs a text or its input.
func script(argv []string) (at int, runs bool) {
	for at = 1; at < len(argv); at++ {
		switch w := argv[at]; {
		case w == "-" || w == "--":
			at++
			return at, at < len(argv) && !process(argv[at])
		case w == "--rcfile" || w == "--init-file":
			at++
		case strings.HasPrefix(w, "--"):
		case strings.HasPrefix(w, "-"), strings.HasPrefix(w, "+"):
			if w[0] == '-' && strings.ContainsAny(w, "cs") {
				return at, false
			}
			if strings.HasSuffix(w, "o") || strings.HasSuffix(w, "O") {
				at++
			}
		default:
			return at, !process(w)
		}
	}
	return at, false
}

// process reports whether a file is one of a process, as those of <(command) are.
func process(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/")
}
