// Package sandboxtest has the attacks that every sandbox must withstand. They are numbered, and
// each number has one or more variants. A variant is a call of the program in attack/ and a check
// from outside: of files, listeners, processes, mounts, and descriptors, never of an exit status
// alone.
//
// Each variant runs in its own cell: this test binary re-executed in new namespaces, with a root
// folder, secrets, listeners, and a victim process that exist only for this variant. Run runs the
// variants against a backend, as root and as an ordinary user. Controls runs them without
// protection and fails for each that does no harm there, since such a variant would prove nothing.
//
// Not included are checks above the sandbox interface: how a script's interpreter is found (79 in
// part), host names at the proxy (108 in part), and invalid grant files (124). The tables of other
// architectures (125) are tested with their backend.
package sandboxtest
