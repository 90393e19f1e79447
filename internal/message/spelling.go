package message

import (
	"cmp"
	"slices"
	"strings"
)

// mostNear is the upper bound for the words that Nearest returns.
const mostNear = 3

// Nearest returns the known words that a mistyped word may mean: words at a distance of one letter,
// or of two if the word has six letters or more; if there is none, words that begin with it. The
// nearest come first, and equally near ones in the order of known. For a word of less than three
// letters, to which every short word is near, the result is empty.
func Nearest(word string, known []string) []string {
	if len(word) < 3 {
		return nil
	}
	limit := 1
	if len(word) >= 6 {
		limit = 2
	}
	const begins = 3 // the rank of a word that begins with word: above the limit
	rank := func(k string) int {
		if d := distance(word, k); d <= limit {
			return d
		} else if strings.HasPrefix(k, word) {
			return begins
		}
		return begins + 1
	}
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == word || rank(k) > begins })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	if i := slices.IndexFunc(near, func(k string) bool { return rank(k) == begins }); i > 0 {
		near = near[:i]
	}
	return near[:min(len(near), mostNear)]
}

// DidYouMean returns a question with the words of Nearest, each after prefix: ": did you mean --a
// or --b?"; "" if there is none.
func DidYouMean(prefix, word string, known []string) string {
	near := Nearest(word, known)
	if len(near) == 0 {
		return ""
	}
	for i := range near {
		near[i] = prefix + near[i]
	}
	last := len(near) - 1
	if last == 0 {
		return ": did you mean " + near[0] + "?"
	}
	return ": did you mean " + strings.Join(near[:last], ", ") + " or " + near[last] + "?"
}

// distance is the number of letters to insert, omit, replace, or swap with their neighbour to turn
// a into b (the optimal string alignment distance). Letters are bytes.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)} // the last three
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		rows = [3][]int{last, row, before}
	}
	return rows[1][len(b)]
}
