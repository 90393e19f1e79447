package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// announce says on stderr that packets are being captured, and how.
func announce(out io.Writer, ifis []capture.Interface, o capture.Options) {
	for _, ifi := range ifis {
		switch {
		case ifi.Hook == capture.TailCall:
			fmt.Fprintf(out, "xdpcap: the hook map's owner calls %s before it returns\n", ifi.Program.Name)
		case ifi.Hook != capture.XDP:
			fmt.Fprintf(out, "xdpcap: %s runs XDP program %s: it stays, and is traced at its %s\n", ifi.Name, ifi.Traced, ifi.Hook)
		case ifi.Mode == capture.Generic && o.Mode == capture.Auto:
			fmt.Fprintf(out, "xdpcap: driver %s of %s has no native XDP: using generic mode, in the kernel's stack\n",
				orDash(ifi.Driver), ifi.Name)
		}
	}
	fmt.Fprintf(out, "xdpcap: listening on %s, XDP %s, link-type EN10MB (Ethernet), snapshot length %d bytes\n",
		interfaceNames(ifis), modes(ifis), o.SnapLen)
}

func interfaceNames(ifis []capture.Interface) string {
	var names []string
	for _, ifi := range ifis {
		names = append(names, ifi.Label())
	}
	return strings.Join(names, ",")
}

// modes are the different ways in which the interfaces are captured: native, generic, entry or exit.
func modes(ifis []capture.Interface) string {
	var all []string
	for _, ifi := range ifis {
		mode := ifi.Mode.String()
		if ifi.Hook != capture.XDP {
			mode = ifi.Hook.String()
		}
		if !slices.Contains(all, mode) {
			all = append(all, mode)
		}
	}
	return strings.Join(all, ",")
}

// A summary is what --json prints at the end. Its keys are documented in the README.
type summary struct {
	Interface   string  `json:"interface"`
	Mode        string  `json:"mode"`
	Seen        uint64  `json:"seen"`
	FilteredOut uint64  `json:"filtered_out"`
	NotSampled  uint64  `json:"not_sampled"`
	Lost        uint64  `json:"lost"`
	Invalid     uint64  `json:"invalid"`
	Captured    uint64  `json:"captured"`
	Bytes       uint64  `json:"bytes"`
	Duration    float64 `json:"duration_s"`
}

func writeJSON(out io.Writer, ifis []capture.Interface, s capture.Stats, d time.Duration) error {
	return json.NewEncoder(out).Encode(summary{
		Interface:   interfaceNames(ifis),
		Mode:        modes(ifis),
		Seen:        s.Seen,
		FilteredOut: s.FilteredOut,
		NotSampled:  s.NotSampled,
		Lost:        s.Lost,
		Invalid:     s.Invalid,
		Captured:    s.Captured,
		Bytes:       s.Bytes,
		Duration:    d.Seconds(),
	})
}

// writeCounts prints tcpdump's three lines and the whole account.
func writeCounts(out io.Writer, s capture.Stats) {
	fmt.Fprintf(out, "%d packets captured\n%d packets received by filter\n%d packets dropped by kernel\n",
		s.Captured, s.Matched(), s.Lost)
	fmt.Fprintf(out, "xdpcap: %d seen = %d filtered out + %d not sampled + %d lost + %d invalid + %d captured\n",
		s.Seen, s.FilteredOut, s.NotSampled, s.Lost, s.Invalid, s.Captured)
}

const liveInterval = time.Second

// A reporter answers SIGUSR1 with the counts and, where live, keeps a line of them on the terminal.
type reporter struct {
	stop, finished chan struct{}
}

func startReporter(out io.Writer, s *capture.Session, size func() int64, live bool) *reporter {
	r := &reporter{stop: make(chan struct{}), finished: make(chan struct{})}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	var tick <-chan time.Time
	var ticker *time.Ticker
	if live {
		ticker = time.NewTicker(liveInterval)
		tick = ticker.C
	}
	go func() {
		defer close(r.finished)
		defer signal.Stop(asked)
		if live {
			defer ticker.Stop()
			defer fmt.Fprint(out, "\r\x1b[K")
		}
		var before uint64
		for {
			select {
			case <-r.stop:
				return
			case <-asked:
				if st, err := s.Stats(); err == nil {
					writeCounts(out, st)
				}
			case <-tick:
				if st, err := s.Stats(); err == nil {
					fmt.Fprintf(out, "\r%s\x1b[K", liveLine(st, st.Captured-before, size()))
					before = st.Captured
				}
			}
		}
	}()
	return r
}

// end joins the goroutine, so that nothing is printed after it.
func (r *reporter) end() {
	close(r.stop)
	<-r.finished
}

func liveLine(s capture.Stats, lately uint64, size int64) string {
	return fmt.Sprintf("xdpcap: %d seen, %d captured, %d lost, %spkt/s, %sB written",
		s.Seen, s.Captured, s.Lost, scaled(float64(lately)/liveInterval.Seconds()), scaled(float64(size)))
}

// scaled is x with three digits or so and a decimal prefix.
func scaled(x float64) string {
	for _, prefix := range []string{"", "k", "M", "G"} {
		if x < 1000 {
			return strconv.FormatFloat(x, 'f', min(1, len(prefix)), 64) + " " + prefix
		}
		x /= 1000
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " T"
}
