// Package sandboxtest holds the attacks that every sandbox has to withstand.
// They are numbered; each number has one or more ways of doing the harm, and a
// way is a call of the program in attack/ plus a judge who looks from outside:
// at files, listeners, processes, mounts and descriptors, never at an exit
// status alone.
//
// Every way is run in a cell of its own: this test binary started anew in fresh
// namespaces, with a root folder, secrets, listeners and a victim process that
// are there for the way only and gone with it. Run runs the ways against a
// backend, as root and as an ordinary user. Controls runs them where nothing is
// in their way, and fails for each that does no harm there: such a way would
// prove nothing.
//
// What is not here because it is decided above the port: how a script's
// interpreter is found (79 in part), names of hosts at the proxy (108 in part),
// broken files of grants (124), and the tables of other architectures (125),
// which stand beside the backend that has them.
package sandboxtest
