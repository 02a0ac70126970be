package scan

// label is a set of kinds of data that a command or a statement uses.
type label uint16

const (
	download   label = 1 << iota // from the network
	installer                    // from an address where a project documents its installer
	untrusted                    // from an address that hides who is behind it
	decoded                      // made readable, such as from base64
	secret                       // from a file with credentials
	environ                      // all environment variables
	channel                      // a connection that sends what is written to it
	given                        // a parameter or the user's input
	credential                   // a credential that a program printed
)

// deed is what a command or a statement does with its data.
type deed uint8

const (
	nothing deed = iota
	executes
	starts // a process, with the data in its arguments
	transmits
	reads
)
