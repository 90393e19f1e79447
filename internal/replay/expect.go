package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Expectations are the verdicts that packets should get.
type Expectations struct {
	All []Expectation
}

// An Expectation is one line: packets that match a filter should get a verdict.
type Expectation struct {
	Line    int    // in the file, from 1
	Filter  string // as pcap-filter has it
	Verdict xdp.Verdict

	Packets uint64 // that matched
	Wrong   uint64 // that matched and got another verdict

	// The first packet with another verdict: the verdict, its time, and its position among the
	// packets that ran, from 1.
	Got    xdp.Verdict
	First  time.Time
	Number uint64

	program *filter.Program
}

// ParseExpectations reads a file: on each line a filter, a comma and a verdict. The filter applies
// to a packet as it came in, and is compiled like this. Empty lines and lines that begin with # are
// skipped.
func ParseExpectations(text, name string, of filter.Options) (*Expectations, error) {
	e := new(Expectations)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseExpectation(line, of)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", i+1, name, err)
		}
		one.Line = i + 1
		e.All = append(e.All, one)
	}
	if e.All == nil {
		return nil, fmt.Errorf("%s expects nothing: each line is a filter, a comma and a verdict, such as udp port 53, pass", name)
	}
	return e, nil
}

func parseExpectation(line string, of filter.Options) (one Expectation, err error) {
	comma := strings.LastIndexByte(line, ',')
	if comma < 0 {
		return one, fmt.Errorf("%q: must be a filter, a comma and a verdict, such as udp port 53, pass", line)
	}
	one.Filter = strings.TrimSpace(line[:comma])
	if one.Verdict, err = xdp.ParseVerdict(strings.TrimSpace(line[comma+1:])); err != nil {
		return one, err
	}
	one.program, err = filter.Compile(one.Filter, of)
	return one, err
}

// Failed returns the expectations that were not met. An expectation whose filter matches no packet
// was not tested, and is not met either. A nil e has no expectations.
func (e *Expectations) Failed() (failed []Expectation) {
	if e == nil {
		return nil
	}
	for _, one := range e.All {
		if one.Wrong > 0 || one.Packets == 0 {
			failed = append(failed, one)
		}
	}
	return failed
}

// String describes how the expectation failed.
func (e *Expectation) String() string {
	if e.Packets == 0 {
		return fmt.Sprintf("line %d: %s, %v: no packet matches the filter", e.Line, e.Filter, e.Verdict)
	}
	return fmt.Sprintf("line %d: %s, %v: %d of %d packets got another verdict: first packet %d, of %s, got %v",
		e.Line, e.Filter, e.Verdict, e.Wrong, e.Packets, e.Number, e.First.Format("15:04:05.000000"), e.Got)
}

// check compares a packet's verdict with the expected verdict.
func (e *Expectations) check(p *compared, number uint64) {
	for i := range e.All {
		one := &e.All[i]
		if one.program.Run(p.before, p.packet.WireLen) == 0 {
			continue
		}
		if one.Packets++; p.now.verdict == one.Verdict {
			continue
		}
		if one.Wrong++; one.Wrong == 1 {
			one.Got, one.First, one.Number = p.now.verdict, time.Unix(0, p.packet.Stamp()), number
		}
	}
}
