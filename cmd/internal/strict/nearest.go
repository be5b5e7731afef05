package strict

// Nearest returns the candidate that key is most likely a slip of, or "" when none is close. Of two equally
// close it takes the one of the same length: a swap is likelier than a forgotten letter.
func Nearest(key string, candidates []string) string {
	best, distance := "", 1+(len(key)+2)/3
	for _, c := range candidates {
		d := editDistance(key, c)
		if d < distance || (d == distance && best != "" && len(c) == len(key)) {
			best, distance = c, d
		}
	}
	return best
}

// editDistance is Levenshtein's, with a swap of neighbours as one edit ("modle").
func editDistance(a, b string) int {
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
