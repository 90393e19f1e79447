package frame

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// ListenFlag is the address at which a command serves its counters. As a Name it cannot be empty.
func ListenFlag(address *string) Flag {
	return Flag{Name: "listen", Value: (*Name)(address), Settings: ExposesData | NotForWireshark,
		Help: "serve the counters to Prometheus at http://`address`/metrics, and to browsers as a page at /: 127.0.0.1:9432, :9432"}
}

// NoSandboxFlag is --no-sandbox of every command that gives up privileges.
func NoSandboxFlag(off *bool) Flag {
	return Flag{Name: "no-sandbox", Value: off, Settings: GrantsRights,
		Help: "keep all privileges, instead of giving up those that are not needed once everything is open"}
}

// ModeFlag is --xdp-mode of a command that attaches a program to interfaces without one.
func ModeFlag(mode *string) Flag {
	return Flag{Name: "xdp-mode", Value: mode, Default: "auto", Words: []string{"auto", "native", "generic"},
		Help: "attach in this `mode`: native (in the driver), generic (in the stack), or auto (generic only where the driver has no native mode)",
		Dialog: Dialog{Place: 2, Label: "XDP mode", Choices: []Choice{
			{"", "native, or generic where the driver has none"}, {"native", "native"}, {"generic", "generic"}}}}
}

// ReasonMapFlag is --reason-map of a command that reads why the traced program drops packets.
func ReasonMapFlag(m *string) Flag {
	return Flag{Name: "reason-map", Value: (*Name)(m),
		Help: "read why the XDP program that runs there drops a packet from this `map`: its name, its id, or the path where it is pinned"}
}

// ParseVerdicts parses the words of --verdict. A word that is a verdict of XDP and of tc, such as
// redirect, is in both results.
func ParseVerdicts(names []string) (atXDP, atTC []capture.Verdict, err error) {
	for _, name := range names {
		xdp, errXDP := capture.ParseVerdict(name)
		if errXDP == nil {
			atXDP = append(atXDP, xdp)
		}
		tc, errTC := capture.ParseTCVerdict(name)
		if errTC == nil {
			atTC = append(atTC, tc)
		}
		if errXDP != nil && errTC != nil {
			return nil, nil, fmt.Errorf("--verdict: %w; of a program at tc %s", errXDP, strings.Join(capture.TCVerdictNames(), ", "))
		}
	}
	return atXDP, atTC, nil
}

// CheckSlowerThan refuses a time of --slower-than above the longest run time that is recorded. The
// error suggests a unit, because a number without one counts seconds.
func CheckSlowerThan(d time.Duration) error {
	if d < 0 || d > capture.MaxRunTime {
		return fmt.Errorf("--slower-than %v: must be at most %v: give it a unit, as in 5us", d, capture.MaxRunTime)
	}
	return nil
}
