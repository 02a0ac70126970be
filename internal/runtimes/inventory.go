package runtimes

// pythonInventory prints those of its arguments that are installed as distributions or can be
// imported.
const pythonInventory = `import sys, importlib.metadata as m, importlib.util as u
for n in sys.argv[1:]:
    try:
        m.version(n)
    except Exception:
        try:
            if u.find_spec(n.replace("-", "_").split(".")[0]) is None:
                continue
        except Exception:
            continue
    print(n)
`

// nodeInventory prints those of its arguments that can be resolved.
const nodeInventory = `for (const n of process.argv.slice(1)) { try { require.resolve(n); console.log(n) } catch {} }`

// Inventory returns the command that prints which of the packages named after it a runtime has, one
// per line. It returns nil if there is no such command.
func Inventory(runtime string, find func(string) (string, bool)) []string {
	if runtime == "node" {
		if node, ok := find("node"); ok {
			return []string{node, "-e", nodeInventory, "--"}
		}
		return nil
	}
	if python, ok := find("python3"); ok {
		return []string{python, "-E", "-s", "-B", "-c", pythonInventory}
	}
	return nil
}
