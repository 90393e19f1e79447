package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sampling is the value of --sample: one packet of every N is kept.
type sampling struct {
	oneIn    uint32                     // N for all packets
	auto     bool                       // N is raised as far as necessary to lose no packet
	verdicts map[capture.Verdict]uint32 // N for each verdict; nil = oneIn is for all
}

// Set reads N, auto or a list of VERDICT=N. checkSampling refuses an N of 0.
func (s *sampling) Set(text string) error {
	if text == "auto" {
		*s = sampling{oneIn: 1, auto: true}
		return nil
	}
	if !strings.Contains(text, "=") {
		n, err := parseOneIn(text)
		*s = sampling{oneIn: n}
		return err
	}
	verdicts := make(map[capture.Verdict]uint32)
	for _, part := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		v, err := capture.ParseVerdict(name)
		if err != nil || v > capture.Redirect {
			return fmt.Errorf("%q: must be a verdict and a number, as in drop=1,pass=1000; verdicts are %s", part, strings.Join(xdp.VerdictNames(), ", "))
		}
		if _, ok := verdicts[v]; ok {
			return fmt.Errorf("%v has two numbers", v)
		}
		if verdicts[v], err = parseOneIn(number); err != nil {
			return fmt.Errorf("%q: %w", part, err)
		}
	}
	*s = sampling{oneIn: 1, verdicts: verdicts}
	return nil
}

func parseOneIn(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is too large a number")
	case err != nil:
		return 0, errors.New("must be a positive whole number" + hintForShare(text))
	}
	return uint32(n), nil
}

// hintForShare returns a hint with the N for a share such as 1% or 1/1000; "" for every other text.
func hintForShare(text string) string {
	percent, isPercent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(percent, 64)
	share /= 100
	if number, of, isFraction := strings.Cut(text, "/"); isFraction {
		var whole float64
		if share, err = strconv.ParseFloat(number, 64); err == nil {
			whole, err = strconv.ParseFloat(of, 64)
			share /= whole
		}
		isPercent = true
	}
	if !isPercent || err != nil || !(share > 0 && share <= 1) {
		return ""
	}
	return fmt.Sprintf(": N is how many packets one is kept of, so say %.0f", 1/share)
}

func (s *sampling) String() string {
	if s.auto {
		return "auto"
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(s.verdicts)) {
		parts = append(parts, fmt.Sprintf("%v=%d", v, s.verdicts[v]))
	}
	if parts != nil {
		return strings.Join(parts, ",")
	}
	return strconv.FormatUint(uint64(s.oneIn), 10)
}

func (s *sampling) Type() string { return "sampling" }

// checkSampling finds mistakes in --sample.
func (o *Options) checkSampling(func(flag string) bool) error {
	s := &o.sample
	for _, v := range slices.Sorted(maps.Keys(s.verdicts)) {
		if s.verdicts[v] == 0 {
			return fmt.Errorf("--sample %v=0: must be at least 1, which is every packet; to leave out a verdict, use --verdict", v)
		}
	}
	switch {
	case s.oneIn == 0:
		return errors.New("--sample 0: must be at least 1, which is every packet")
	case s.verdicts == nil && !s.auto:
		return nil
	}
	for i := range o.Targets {
		if t := &o.Targets[i]; !t.HasWeights() {
			return fmt.Errorf("--sample %s and -w %s: a %v %s cannot record how many packets each one stands for: write pcapng", s, t.Name, t.Format, t.Kind())
		}
	}
	if o.Live.Serve != "" && !o.Live.Format.HasWeights() {
		return fmt.Errorf("--sample %s and --serve: a %v stream cannot record how many packets each one stands for: omit --format", s, o.Live.Format)
	}
	return nil
}
