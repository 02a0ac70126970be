// Command metier runs agents with Agent Skills and proves what happened.
package main

import (
	"context"
	"os"

	"metier/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), cli.System()))
}
