package sandboxtest

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/net/bpf"

	"metier/sandbox"
)

// Options describe a backend.
type Options struct {
	// Level is the level that every job requires; zero is L2.
	Level sandbox.Level
	// Filter is the program with which the backend filters system calls on this machine, in the
	// kernel's encoding. It proves that a call would be denied if this kernel denies it to
	// everyone. Nil: the backend has its own kernel.
	Filter []bpf.RawInstruction
	// Needs names the primitives (see primitives) that the backend cannot run without. Without any
	// of the others, everything must still work.
	Needs []string
	// Programs are host files that the backend needs, by their name below /cell in every cell. They
	// are copied, so that every user can run them.
	Programs map[string]string
	// Launches is how often a program is started to find leaks; zero is 1,000 as root and 250 as an
	// ordinary user.
	Launches int
	// Keeps is the argv[0] of a process that the backend keeps in addition to its jobs, as a child
	// of the test. Empty: none.
	Keeps string
}

// Visible is a folder of some cells that the backend must show to programs.
const Visible = "/srv/visible"

// ownKernel reports whether the backend has its own kernel: its programs are not processes of the
// host, and starting one is slow.
func (o Options) ownKernel() bool { return o.Filter == nil }

func (o Options) level() sandbox.Level {
	if o.Level == 0 {
		return sandbox.L2
	}
	return o.Level
}

// way is a variant of an attack.
type way struct {
	number  int
	name    string // of the case
	by      string // which way; "" if there is only one
	do      func(c *cell)
	prepare func(s *spec) error // with the rights of the cell's root, before the judge comes
	// How the control runs. By default, the attack succeeds in a cell without a sandbox.
	careless bool   // the attack succeeds with a careless runner
	asRoot   bool   // the control needs root on the host, and a cell without a user namespace
	rootOnly bool   // for root only: needs a second user
	asUser   bool   // the control is an ordinary user in its cell
	kernel   string // why this kernel denies it to everyone: the filter must prove it
	golden   func(f Filter) error
	nested   bool // the sandbox also starts in a user namespace, as an ordinary user there
	tty      bool // the judge has a terminal
	alone    bool // inspects the whole machine
	seconds  int  // time limit of a cell; zero is 60
}

func (w *way) String() string {
	s := fmt.Sprintf("case %03d %s", w.number, w.name)
	if w.by != "" {
		s += ": " + w.by
	}
	return s
}

func ways() []way {
	return slices.Concat(stagedWays(), startWays(), fileWays(), mountWays(), processWays(), kernelWays(), networkWays(), exhaustWays(), lifeWays(), closedWays())
}

// maxKernel is the maximum number of variants that rely on the filter instead of a successful
// control.
const maxKernel = 6

// Run runs all attacks against the backend that open returns, as root if the
// test runs as root, and as an ordinary user. open is called in another process
// for each way, so it must not depend on state that the test set up earlier.
func Run(t *testing.T, open func(t *testing.T) sandbox.Sandbox, o Options) {
	if enter(t, open, o) {
		return
	}
	s := newSuite(t, o)
	for _, seat := range s.seats {
		t.Run(seat, func(t *testing.T) {
			for i, w := range ways() {
				if w.rootOnly && seat != rootSeat {
					continue
				}
				t.Run(w.String(), func(t *testing.T) {
					if !w.alone { // parallel tests run after the others
						t.Parallel()
					}
					if w.golden != nil && o.Filter != nil {
						filter, err := newFilter(o.Filter)
						if err == nil {
							err = w.golden(filter)
						}
						if err != nil {
							t.Errorf("the filter lets it through: %v", err)
						}
					}
					r := s.run(t, spec{Way: i, Seat: seat, Namespace: seat != rootSeat || w.nested, AsUser: seat != rootSeat || w.nested})
					for _, h := range append(r.Harm, r.Broken...) {
						t.Error(h)
					}
					r.show(t)
				})
			}
		})
	}
}

// Controls runs all attacks without a sandbox, each in a cage, and fails for
// those that do no harm.
func Controls(t *testing.T) {
	if enter(t, nil, Options{}) {
		return
	}
	s := newSuite(t, Options{Filter: []bpf.RawInstruction{}})
	inKernel := 0
	for _, w := range ways() {
		if w.kernel != "" {
			inKernel++
			if w.golden == nil {
				t.Errorf("%s relies on the kernel, but has no table", w.String())
			}
		}
	}
	if inKernel > maxKernel {
		t.Errorf("%d ways rely on the kernel, limit %d", inKernel, maxKernel)
	}
	for _, seat := range s.seats {
		t.Run(seat, func(t *testing.T) {
			for i, w := range ways() {
				if w.kernel != "" || (w.rootOnly || w.asRoot) && seat != rootSeat {
					continue
				}
				t.Run(w.String(), func(t *testing.T) {
					if !w.alone { // parallel tests run after the others
						t.Parallel()
					}
					r := s.run(t, spec{Way: i, Seat: seat, Control: true, Namespace: !w.asRoot, AsUser: w.asUser})
					if len(r.Harm) == 0 && !(w.careless && len(r.Broken) > 0) {
						t.Errorf("did no harm without a sandbox, so it proves nothing: %q", r.Broken)
					}
					r.show(t)
				})
			}
		})
	}
}

// The seats a sandbox can be started from.
const (
	rootSeat = "root"
	userSeat = "user"
)

// nobody is the ordinary user of the tests when root runs them.
const nobody = 65534

func seats() []string {
	if os.Geteuid() == 0 {
		return []string{rootSeat, userSeat}
	}
	return []string{userSeat}
}
