package cli

import (
	"os"
	"syscall"
)

// interruptSignals are what asks a run to stop in good order.
var interruptSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
