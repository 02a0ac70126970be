package skillmd_test

import (
	"fmt"

	"metier/skillmd"
)

// Repair a file and keep all the rest of it.
func ExampleOpen() {
	f := skillmd.Open([]byte("---\nname: demo # ours\nx-team:   [a, b]\ndescription: Use when: asked\n---\n# Demo\n"))
	for _, d := range f.Fix() {
		fmt.Println(d.Code)
	}
	fmt.Print(string(f.Bytes()))
	// Output:
	// unquoted-colon
	// ---
	// name: demo # ours
	// x-team:   [a, b]
	// description: "Use when: asked"
	// ---
	// # Demo
}
