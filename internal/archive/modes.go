package archive

import "cmp"

// Bits of a Unix mode, as archives store them.
const (
	modeKind    = 0o170000
	modeFile    = 0o100000
	modeFolder  = 0o040000
	modeSpecial = 0o7000 // setuid, setgid, and sticky
	modeExecute = 0o111
)

// checkMode checks that a Unix mode fits an entry. A mode of zero, or one without a kind, fits any.
func checkMode(name string, mode int64, folder bool) error {
	kind := mode & modeKind
	switch {
	case mode < 0 || mode > modeKind|0o7777:
		return failf(CodeMode, name, "its mode %#o is invalid; pack the files again", mode)
	case kind != 0 && kind != modeFile && kind != modeFolder:
		return failf(CodeKind, name, "it is a %s; archives may have only files and folders", cmp.Or(kinds[kind], "special file"))
	case kind == modeFolder && !folder, kind == modeFile && folder:
		return failf(CodeAmbiguous, name, "it is a file in one place and a folder in another; pack the files again")
	case mode&modeSpecial != 0:
		return failf(CodeMode, name, "it is setuid, setgid, or sticky; remove this with chmod ug-s,-t and pack the files again")
	}
	return nil
}

var kinds = map[int64]string{
	0o120000: "symlink",
	0o060000: "block device",
	0o020000: "character device",
	0o010000: "FIFO",
	0o140000: "socket",
}

// Systems on which a zip entry can be made.
const (
	systemUnix  = 3
	systemMacOS = 19
)

// Attributes of DOS.
const (
	dosVolume = 0x08
	dosFolder = 0x10
)

// zipAttributes are the external attributes of a zip entry: a Unix mode in the upper half, and
// attributes of DOS in the lower one.
type zipAttributes struct {
	system byte // that made the entry
	bits   uint32
}

func (a zipAttributes) check(name string, folder bool) error {
	switch {
	case a.bits&dosVolume != 0:
		return failf(CodeKind, name, "it is the label of a disk; archives may have only files and folders")
	case a.bits&dosFolder != 0 && !folder:
		return failf(CodeAmbiguous, name, "it is a folder, but its name does not end with a slash; pack the files again")
	}
	return checkMode(name, int64(a.bits>>16), folder)
}

func (a zipAttributes) executable() bool {
	return (a.system == systemUnix || a.system == systemMacOS) && a.bits>>16&modeExecute != 0
}
