package sandbox

// Exec is a program that a process of a job is about to start.
type Exec struct {
	// Lines are the command lines that describe the program: its arguments as given, then with the
	// path that the process named as the first word, with each link that this path leads to, and with
	// the file. nil: they could not be read.
	Lines [][]string
	// Interpreters are the command lines that the kernel makes for a script.
	Interpreters [][]string
	// Loader are the links to the program that the kernel starts for an ELF file, and then its file. It
	// has the same arguments, and is usually the loader of the C library.
	Loader []string
	// Cut reports that the arguments exceed the limits, and that the last ones are missing.
	Cut bool
	// Direct reports that the job's own program started it, or a process for which the function
	// returned true, and not another program.
	Direct bool
	// Files returns the links and then the file that a path leads to for the process, or nothing if
	// there is no file. It may only be called while the program waits.
	Files func(path string) ([]string, error)
}

// Limits of Exec.
const (
	MaxExecArgs  = 4096
	MaxExecBytes = 256 << 10 // of all arguments
)

// NoteUnwatched is a code of Report.Notes: no call of Job.Exec is made on this host.
const NoteUnwatched = "programs-unwatched"
