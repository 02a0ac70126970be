package main

// entry is one row of the table: a subject on a tree.
type entry struct {
	Work    string  // rows of one piece of work stand together; their first is the floor
	Name    string  // what the reader sees
	Program string  // floor, metier, peers, or cli for the command itself
	Case    string  // the subject's case, or the command line of cli
	Tree    string  // plain or mix
	Skills  int     // of the tree
	Procs   int     // GOMAXPROCS
	Budget  float64 // the most times the floor; 0: none
	Indexed bool    // there is an index from a run before
	Figure  string  // the subject's figure in ms that counts, instead of its time
	Over    float64 // the most ms over the floor; 0: none
	Most    float64 // the most ms; 0: none
	MostMB  float64 // the most memory of the process; 0: none
	Sizes   bool    // rows of the work have trees of several sizes
	Rounds  int     // the most rounds; 0: all
}

var peers = []entry{
	{Name: "adk-go v2.2.0", Case: "adk"},
	{Name: "ollama v0.34.0", Case: "ollama"},
	{Name: "eino v0.7.36", Case: "eino"},
	{Name: "trpc-agent-go v1.10.0", Case: "trpc"},
}

// entries are all rows, for the sizes asked for.
func entries(sizes []int) (all []entry) {
	for _, n := range sizes {
		budget := func(b float64) float64 {
			if n == 10_000 {
				return b
			}
			return 0
		}
		cold := []entry{
			{Name: "floor: ReadDir, then open, read 4 KB, close", Program: "floor", Case: "cold", Procs: 1},
			{Name: "metier, heads", Program: "metier", Case: "scan", Procs: 1, Budget: budget(1.8)},
			{Name: "metier, heads", Program: "metier", Case: "scan", Procs: 2, Budget: budget(1.1)},
			{Name: "metier, judged snapshot", Program: "metier", Case: "snapshot", Procs: 2},
		}
		for _, p := range peers {
			cold = append(cold, entry{Name: p.Name, Program: "peers", Case: p.Case, Procs: 2})
		}
		all = append(all, rows("cold, plain tree", "plain", n, cold)...)
		mix := []entry{
			{Name: "floor: walk of folders without SKILL.md, open, read 4 KB, close", Program: "floor", Case: "walk", Procs: 1},
			{Name: "metier, heads", Program: "metier", Case: "scan", Procs: 1},
			{Name: "metier, heads", Program: "metier", Case: "scan", Procs: 2, Budget: budget(1.8)},
			{Name: "metier, judged snapshot", Program: "metier", Case: "snapshot", Procs: 2},
		}
		for _, p := range peers {
			mix = append(mix, entry{Name: p.Name, Program: "peers", Case: p.Case, Procs: 2})
		}
		all = append(all, rows("cold, mixed tree", "mix", n, mix)...)
		all = append(all, rows("warm, plain tree", "plain", n, []entry{
			{Name: "floor: ReadDir, then lstat of each SKILL.md", Program: "floor", Case: "warm", Procs: 1},
			{Name: "metier, heads from the index", Program: "metier", Case: "indexed", Procs: 1, Indexed: true},
			{Name: "metier, heads from the index", Program: "metier", Case: "indexed", Procs: 2, Indexed: true, Budget: budget(1.3)},
		})...)
		if n > 10_000 {
			continue
		}
		for procs := 1; procs <= 2; procs++ {
			all = append(all, rows("every file hashed, plain tree", "plain", n, []entry{
				{Name: "floor: walk, read and SHA-256 of each file", Program: "floor", Case: "full", Procs: procs},
				{Name: "metier, full snapshot", Program: "metier", Case: "full", Procs: procs, Budget: budget(1.3)},
			})...)
		}
	}
	all = append(all, rows("one skill used, log in memory, median of 500", "plain", 1_000, []entry{
		{Name: "floor: open, read and SHA-256 of SKILL.md", Program: "metier", Case: "use", Procs: 2, Figure: "floor"},
		{Name: "metier, the same confined to the skill", Program: "metier", Case: "use", Procs: 2, Figure: "file", Over: 0.03},
		{Name: "metier, read_skill_resource: judged, claimed, read, recorded", Program: "metier", Case: "use", Procs: 2, Figure: "read"},
		{Name: "metier, load_skill: judged, claimed, indexed, recorded", Program: "metier", Case: "use", Procs: 2, Figure: "load"},
	})...)
	all = append(all, rows("1,000 questions of two to six words, a tenth misspelt, 100,000 skills in memory", "", 0, []entry{
		{Name: "metier, half of the answers", Program: "metier", Case: "search", Procs: 2, Figure: "p50", Most: 5},
		{Name: "metier, 99 of 100 answers", Program: "metier", Case: "search", Procs: 2, Figure: "p99", Most: 20},
		{Name: "metier, building the index", Program: "metier", Case: "search", Procs: 2, Figure: "build", Most: 5_000},
		{Name: "metier, heap of the index, in MB instead of ms", Program: "metier", Case: "search", Procs: 2, Figure: "heap", Most: 300},
	})...)
	return append(all, rows("whole process", "plain", 1_000, []entry{
		{Name: "metier version", Program: "cli", Case: "version", Procs: 2},
		{Name: "metier list, no index yet", Program: "cli", Case: "list", Procs: 2, Most: 50},
		{Name: "metier list, indexed", Program: "cli", Case: "list", Procs: 2, Indexed: true},
	})...)
}

func rows(work, tree string, n int, list []entry) []entry {
	for i := range list {
		list[i].Work, list[i].Tree, list[i].Skills = work, tree, n
	}
	return list
}
