package message

import "fmt"

// Kibibytes formats a power of two that is at least 1 KiB.
func Kibibytes(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
