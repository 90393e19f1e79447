package pcapng

import (
	"strconv"
	"strings"
)

// A packet that was drawn at random as one of many says so in a comment, because no option of the
// format has a number for it. It begins with weightWord, and the number follows.
const weightWord = "weight "

// WeightComment is the comment of a packet that stands for so many.
func WeightComment(weight uint32) string {
	return weightWord + strconv.FormatUint(uint64(weight), 10)
}

// Weight returns how many packets one with these comments stands for: 1 where none says it.
func Weight(comments []string) uint32 {
	for _, text := range comments {
		number, ok := strings.CutPrefix(text, weightWord)
		if n, err := strconv.ParseUint(number, 10, 32); ok && err == nil && n > 0 {
			return uint32(n)
		}
	}
	return 1
}
