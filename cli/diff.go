package cli

import (
	"fmt"
	"strings"
)

// diffAround is how many lines that stay are shown around those that change, and diffMost the most lines of which the least
// change is looked for; beyond, all between the first and the last one that differs is shown as changed.
const (
	diffAround = 3
	diffMost   = 2000
)

// unified gives the change from one text to another as patch reads it, "" for none.
func unified(from, to, a, b string) string {
	x, y := splitLines(a), splitLines(b)
	keep := kept(x, y)
	var out strings.Builder
	i, j := 0, 0
	for k := 0; ; {
		// Lines i and j are the first that are not told yet; pairs before k are.
		for k < len(keep) && keep[k] == [2]int{i, j} {
			i, j, k = i+1, j+1, k+1
		}
		if i == len(x) && j == len(y) {
			break
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", oneLine(from), oneLine(to))
		}
		i, j, k = hunk(&out, x, y, keep, i, j, k)
	}
	return out.String()
}

// hunk writes the changes from lines i and j on that lie near each other, and gives where it ended.
func hunk(out *strings.Builder, x, y []string, keep [][2]int, i, j, k int) (int, int, int) {
	before := min(diffAround, i, j)
	i0, j0 := i-before, j-before
	var lines []string
	add := func(sign string, text []string) {
		for _, l := range text {
			if lines = append(lines, sign+l); !strings.HasSuffix(l, "\n") {
				lines[len(lines)-1] += "\n\\ No newline at end of file\n"
			}
		}
	}
	add(" ", x[i0:i])
	for {
		nexti, nextj := len(x), len(y)
		if k < len(keep) {
			nexti, nextj = keep[k][0], keep[k][1]
		}
		add("-", x[i:nexti])
		add("+", y[j:nextj])
		i, j = nexti, nextj
		run := 0 // lines that stay
		for k+run < len(keep) && keep[k+run] == [2]int{i + run, j + run} {
			run++
		}
		if run > 2*diffAround || i+run == len(x) && j+run == len(y) {
			after := min(run, diffAround)
			add(" ", x[i:i+after])
			i, j, k = i+after, j+after, k+after
			break
		}
		add(" ", x[i:i+run])
		i, j, k = i+run, j+run, k+run
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n%s", hunkRange(i0, i-i0), hunkRange(j0, j-j0), strings.Join(lines, ""))
	return i, j, k
}

func hunkRange(start, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}

// splitLines cuts text behind each line end.
func splitLines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		out = append(out, l)
	}
	return out
}

// kept pairs the lines that stay, in order: those that both texts begin and end with, and between them the longest common ones.
func kept(x, y []string) [][2]int {
	var out, tail [][2]int
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		out = append(out, [2]int{head, head})
		head++
	}
	endx, endy := len(x), len(y)
	for endx > head && endy > head && x[endx-1] == y[endy-1] {
		endx, endy = endx-1, endy-1
		tail = append(tail, [2]int{endx, endy})
	}
	x, y = x[head:endx], y[head:endy]
	if len(x)+len(y) <= diffMost {
		common := make([][]int, len(x)+1) // length of the longest common lines of x[i:] and y[j:]
		for i := range common {
			common[i] = make([]int, len(y)+1)
		}
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if common[i][j] = max(common[i+1][j], common[i][j+1]); x[i] == y[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
		for i, j := 0, 0; i < len(x) && j < len(y); {
			switch {
			case x[i] == y[j]:
				out = append(out, [2]int{head + i, head + j})
				i, j = i+1, j+1
			case common[i+1][j] >= common[i][j+1]:
				i++
			default:
				j++
			}
		}
	}
	for i := range tail {
		out = append(out, tail[len(tail)-1-i])
	}
	return out
}
