// Command metier is the command metier that also checks Sigstore signatures of skills.
package main

import (
	"context"
	"os"

	"metier/cli"
	"metier/signature/sigstore"
)

func main() {
	std := cli.System()
	std.Verifiers = sigstore.Verifiers
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), std))
}
