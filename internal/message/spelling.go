package message

import (
	"cmp"
	"slices"
	"strings"
)

// most is how many words Nearest returns at most: more would be no hint.
const most = 3

// Nearest returns the words that somebody who typed word may have meant: those that differ in one
// letter, or in two if it has six or more; if there are none, those that it begins. The nearest
// come first, and those that are equally near in the order of known. The result is empty if none is
// near; every word is near to one of two letters, so that is near to none.
func Nearest(word string, known []string) []string {
	if len(word) < 3 {
		return nil
	}
	limit := 1
	if len(word) >= 6 {
		limit = 2
	}
	const begins = 3 // further than the limit
	far := func(k string) int {
		if d := distance(word, k); d <= limit {
			return d
		} else if strings.HasPrefix(k, word) {
			return begins
		}
		return begins + 1
	}
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == word || far(k) > begins })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if i := slices.IndexFunc(near, func(k string) bool { return far(k) == begins }); i > 0 {
		near = near[:i]
	}
	return near[:min(len(near), most)]
}

// DidYouMean asks for the words that Nearest returns, after a colon and each behind prefix; "" if
// there is none.
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
