// Package nearest finds the likeliest corrections of a misspelt name.
package nearest

import (
	"cmp"
	"slices"
)

// maxLength is the length of the longest name that is compared: the work grows with its square, and the name is not
// trusted.
const maxLength = 128

// To returns up to n candidates that are likely corrections of word, the likeliest
// first. Of two equally close candidates it prefers the one of the same length: a
// swap is likelier than a forgotten letter.
func To(word string, candidates []string, n int) []string {
	type guess struct {
		name           string
		distance, size int
	}
	var guesses []guess
	for _, c := range candidates {
		if len(word) > maxLength || len(c) > maxLength {
			continue
		}
		if d := distance(word, c); d <= (len(word)+2)/3 {
			guesses = append(guesses, guess{c, d, abs(len(c) - len(word))})
		}
	}
	slices.SortStableFunc(guesses, func(a, b guess) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(min(a.size, 1), min(b.size, 1)))
	})
	var names []string
	for _, g := range guesses[:min(n, len(guesses))] {
		names = append(names, g.name)
	}
	return names
}

func abs(n int) int { return max(n, -n) }

// distance is Levenshtein's distance, with a swap of neighbours as one edit ("modle").
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
