package skillmd_test

import (
	"fmt"

	"metier/skillmd"
)

// Change one field of a file and keep all the rest of it.
func ExampleOpen() {
	f := skillmd.Open([]byte("---\nname: demo # ours\nx-team:   [a, b]\nlicense: 'MIT'\n---\n# Demo\n"))
	if err := f.Set("license", "Apache-2.0"); err != nil {
		fmt.Println(err)
	}
	if err := f.SetValue("allowed-tools", skillmd.Value{Kind: skillmd.List, List: []skillmd.Value{{Text: "Read"}, {Text: "Bash(git:*)"}}}); err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(f.Bytes()))
	// Output:
	// ---
	// name: demo # ours
	// x-team:   [a, b]
	// license: 'Apache-2.0'
	// allowed-tools:
	//   - Read
	//   - Bash(git:*)
	// ---
	// # Demo
}
