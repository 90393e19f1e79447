package frame

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// ParseVerdicts parses the words of --verdict. A word that is a verdict of XDP and of tc, such as
// redirect, is in both results.
func ParseVerdicts(names []string) (atXDP, atTC []capture.Verdict, err error) {
	for _, name := range names {
		v, err := capture.ParseVerdict(name)
		if err == nil {
			atXDP = append(atXDP, v)
		}
		if v, ofTC := capture.ParseTCVerdict(name); ofTC == nil {
			atTC, err = append(atTC, v), nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--verdict: %w; of a program at tc %s", err, strings.Join(capture.TCVerdictNames(), ", "))
		}
	}
	return atXDP, atTC, nil
}

// CheckSlowerThan refuses a time of --slower-than above the longest run time that is recorded.
func CheckSlowerThan(d time.Duration) error {
	if d < 0 || d > capture.MaxRunTime {
		return fmt.Errorf("--slower-than %v: must be at most %v: give it a unit, as in 5us", d, capture.MaxRunTime)
	}
	return nil
}
