// Package amount formats amounts of memory and of files for people.
package amount

import "strconv"

// Bytes formats a number of bytes with a unit and, below 100, at most one decimal:
// "72 GiB", "1.5 MiB", "300 bytes".
func Bytes(bytes int64) string {
	if bytes < 0 {
		return "-" + Bytes(-bytes)
	}
	if bytes < 1<<10 {
		return strconv.FormatInt(bytes, 10) + " bytes"
	}
	scaled := float64(bytes)
	for _, unit := range []string{" KiB", " MiB", " GiB", " TiB"} {
		if scaled /= 1 << 10; scaled < 1<<10 || unit == " TiB" {
			digits := 0
			if scaled < 100 && scaled != float64(int64(scaled)) {
				digits = 1
			}
			return strconv.FormatFloat(scaled, 'f', digits, 64) + unit
		}
	}
	return ""
}
