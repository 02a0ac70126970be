package main

// growth are the rows that compare a piece of work with a larger one, through
// the engine: the first is the floor, and the budget is how many times that the
// larger one may take. small makes all of it small, to see that it runs.
func growth(small bool) (all []entry) {
	few, many, runs, low, high := "turns-1000", "turns-4000", "runs-1000", 20, 1_000
	if small {
		few, many, runs, high = "turns-10", "turns-40", "runs-10", 50
	}
	symbols, more, launch := "symbols-1000", "symbols-10000", "launch-20"
	if small {
		more, launch = symbols, "launch-1"
	}
	budget := func(b float64) float64 {
		if small {
			return 0
		}
		return b
	}
	add := func(work string, list ...entry) {
		for i := range list {
			list[i].Work, list[i].Program, list[i].Procs, list[i].Sizes, list[i].Rounds = work, "metier", 2, true, 3
		}
		all = append(all, list...)
	}
	add("turns of one run, a tool called in each, the record in files",
		entry{Name: "floor: 1,000 turns", Case: few},
		entry{Name: "4,000 turns", Case: many, Budget: budget(5)})
	add("1,000 runs at once, three turns each, the skills listed once for all",
		entry{Name: "floor: 20 skills", Case: runs, Tree: "plain", Skills: low, MostMB: budget(400)},
		entry{Name: "1,000 skills", Case: runs, Tree: "plain", Skills: high, Budget: budget(1.5), MostMB: budget(400)})
	add("skills with names of symbols, the same in two roots, each explained",
		entry{Name: "floor: 1,000 in each root", Case: symbols},
		entry{Name: "10,000 in each root", Case: more, Budget: budget(15)})
	add("launch of `true` in a sandbox, from one process, in turns, median of 20",
		entry{Name: "floor: the process holds no more memory", Case: launch, Figure: "0"},
		entry{Name: "it holds 200 MB more", Case: launch, Figure: "200", Budget: budget(1.1)},
		entry{Name: "it holds 800 MB more", Case: launch, Figure: "800", Budget: budget(1.1)})
	return all
}
