package main

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// graph maps a file to the files that it uses.
type graph map[string]map[string]bool

// size is the number of arrows.
func (g graph) size() int {
	n := 0
	for _, to := range g {
		n += len(to)
	}
	return n
}

// inCycles is the number of arrows from a file to a file that leads back to it.
func (g graph) inCycles() int {
	reach := map[string]map[string]bool{}
	for from := range g {
		reach[from] = map[string]bool{}
		g.walk(from, reach[from])
	}
	n := 0
	for from, to := range g {
		for file := range to {
			if reach[file][from] {
				n++
			}
		}
	}
	return n
}

// walk adds to seen all that from leads to.
func (g graph) walk(from string, seen map[string]bool) {
	for to := range g[from] {
		if !seen[to] {
			seen[to] = true
			g.walk(to, seen)
		}
	}
}

// back is the number of arrows that lead against the order of the files.
func (g graph) back() int { return g.against(g.order()) }

// against is the number of arrows to a file that stands earlier in the row.
func (g graph) against(row []string) int {
	place := map[string]int{}
	for i, file := range row {
		place[file] = i
	}
	n := 0
	for from, to := range g {
		for file := range to {
			n += count(place[file] < place[from])
		}
	}
	return n
}

// rounds is how often order looks for a better row.
const rounds = 300

// order lays the files in a row so that few arrows lead back. To find the least
// number is NP-hard. This is the greedy order of Eades, Lin and Smyth ("A fast
// and effective heuristic for the feedback arc set problem", 1993), improved by
// moving files; then, in each round, a part of the row is shuffled and improved
// again, and the better row is kept. The same graph gives the same row.
func (g graph) order() []string {
	row := g.greedy()
	g.improve(row)
	least := g.against(row)
	random := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		other := slices.Clone(row)
		part := other[random.IntN(len(other)):]
		part = part[:random.IntN(len(part))+1]
		random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		g.improve(other)
		if n := g.against(other); n <= least {
			row, least = other, n
		}
	}
	return row
}

// improve moves each file to its best place until no move is a gain.
func (g graph) improve(row []string) {
	for better := true; better; {
		better = false
		for _, file := range slices.Clone(row) {
			better = g.move(row, file) || better
		}
	}
}

// greedy takes sinks to the end of the row, sources to its beginning, and of the
// rest the file with the most arrows out beyond the arrows in.
func (g graph) greedy() []string {
	rest := slices.Sorted(maps.Keys(g))
	var first, last []string
	for len(rest) > 0 {
		best, most, sink := 0, -len(g)-1, false
		for i, file := range rest {
			out, in := g.between(file, rest)
			gain := out - in
			if in == 0 {
				gain = len(g)
			}
			if sink = out == 0; sink {
				best = i
				break
			}
			if gain > most {
				best, most = i, gain
			}
		}
		if sink {
			last = append(last, rest[best])
		} else {
			first = append(first, rest[best])
		}
		rest = slices.Delete(rest, best, best+1)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// between counts the arrows from file to files of rest, and back.
func (g graph) between(file string, rest []string) (out, in int) {
	for _, other := range rest {
		if g[file][other] {
			out++
		}
		if g[other][file] {
			in++
		}
	}
	return out, in
}

// move moves file in row to the place with the fewest back arrows. It reports
// whether there are fewer now.
func (g graph) move(row []string, file string) bool {
	at := slices.Index(row, file)
	to := g.bestPlace(row, at)
	if to == at {
		return false
	}
	rest := slices.Delete(slices.Clone(row), at, at+1)
	copy(row, slices.Insert(rest, to, file))
	return true
}

// bestPlace returns the index at which the file of row[at] has the fewest back arrows.
func (g graph) bestPlace(row []string, at int) int {
	best, least := at, 0
	file := row[at]
	cost := 0 // of file before row[i], beyond its cost at its place
	for i := at - 1; i >= 0; i-- {
		cost += count(g[row[i]][file]) - count(g[file][row[i]])
		if cost < least {
			best, least = i, cost
		}
	}
	cost = 0 // of file after row[i]
	for i := at + 1; i < len(row); i++ {
		cost += count(g[file][row[i]]) - count(g[row[i]][file])
		if cost < least {
			best, least = i, cost
		}
	}
	return best
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
