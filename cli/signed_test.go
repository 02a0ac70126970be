package cli_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// signerCommands are the script commands for tests of signatures.
var signerCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"sshkey": sshkey, "lines": lines}

// sshkey writes a new SSH key, and sets a variable with its public key and another one with the ID of its
// signer: sshkey FILE PUBLIC ID.
func sshkey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sshkey FILE PUBLIC ID")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(block), 0o600))
	signer, err := ssh.NewSignerFromKey(key)
	ts.Check(err)
	ts.Setenv(args[1], strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))))
	ts.Setenv(args[2], "ssh:"+ssh.FingerprintSHA256(signer.PublicKey()))
}

// lines writes a file, in which variables are replaced: lines FILE LINE….
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: lines FILE LINE…")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(args[1:], "\n")+"\n"), 0o600))
}
