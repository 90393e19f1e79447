package machine

import "strconv"

// Amount formats a number of bytes, of memory or of a disk, with a unit and, below 100, at most one
// decimal: "72 GiB", "1.5 MiB", "300 bytes".
func Amount(bytes int64) string {
	if bytes < 0 {
		return "-" + Amount(-bytes)
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
