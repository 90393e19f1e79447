package frame

import (
	"fmt"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// ParseVerdicts reads the words of --verdict.
func ParseVerdicts(names []string) (verdicts []capture.Verdict, err error) {
	for _, name := range names {
		v, err := capture.ParseVerdict(name)
		if err != nil {
			return nil, fmt.Errorf("--verdict: %w", err)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// CheckSlowerThan refuses a time of --slower-than that no packet's run time can have.
func CheckSlowerThan(d time.Duration) error {
	if d < 0 || d > capture.MaxRunTime {
		return fmt.Errorf("--slower-than %v: must be at most %v: give it a unit, as in 5us", d, capture.MaxRunTime)
	}
	return nil
}
