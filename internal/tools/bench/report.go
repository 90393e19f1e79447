package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Report has all figures of a run. The tables, the chart and the documents are made from it
// alone, so that its JSON is enough to make them again. A figure of 0 is a missing one if it cannot
// be 0.
type Report struct {
	Measured time.Time `json:"measured"`
	Seconds  float64   `json:"took_s"`
	Machine  Machine   `json:"machine"`
	Frames   []Sheet   `json:"frames"`
	Files    []Sheet   `json:"files"` // the same with a file to write, and without a search
	Costs    []Cost    `json:"costs"`
	Drains   []Drain   `json:"drains"`
	Stalls   []Stall   `json:"stalls"`
	TwoCPUs  []TwoCPUs `json:"two_cpus"`
	Notes    []string  `json:"notes,omitempty"`  // what else is missing, and why
	Before   *Report   `json:"before,omitempty"` // of an earlier xdpcap, measured in turn
}

// Machine describes the machine of the measurement.
type Machine struct {
	CPUs     int     `json:"cpus"`
	CPU      string  `json:"cpu"`
	Kernel   string  `json:"kernel"`
	Load     float64 `json:"load"`     // load average of the minute before; other work makes the figures useless
	Versions string  `json:"versions"` // of xdpcap and of the other tools
}

// A Sheet has the figures for one frame size.
type Sheet struct {
	Bytes int    `json:"frame_bytes"`  // on the wire, with the checksum
	To    string `json:"to,omitempty"` // where the file is: inMemory or onDisk; "": nowhere
	Rows  []Row  `json:"rows"`
}

// A Row has the figures of one tool, or of the traffic without a tool, at one frame size.
type Row struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`           // of the XDP program during the measurement
	Command string `json:"command,omitempty"` // "": no tool

	// Unpaced traffic, in bursts: its rate; the part that it keeps of the rate of the burst before
	// it, which has the same verdict and no tool; and the part of it that was captured. Medians,
	// and quartiles.
	Unpaced   float64 `json:"unpaced_pps"`
	Keeps     float64 `json:"traffic_keeps"`
	KeepsLow  float64 `json:"traffic_keeps_low"`
	KeepsHigh float64 `json:"traffic_keeps_high"`
	Captured  float64 `json:"captured_part,omitempty"`
	Rounds    int     `json:"rounds,omitempty"`          // of several bursts each
	Lossless  int     `json:"rounds_lossless,omitempty"` // in which nothing was lost

	// The highest rate without loss: Unpaced, if most rounds had no loss.
	Rate     float64 `json:"lossless_pps"`
	OfDrop   float64 `json:"lossless_of_drop"`    // that rate, divided by XDP_DROP's without a tool
	ReaderUs float64 `json:"reader_us,omitempty"` // CPU time per packet at the highest rate without loss
	Missing  string  `json:"missing,omitempty"`   // why there are no figures
}

// A Drain is how fast a tool takes packets out of filled rings. The tool is stopped while they
// fill, and no packets come while it empties them.
type Drain struct {
	What  string `json:"what"` // a tool, or copyingName
	Bytes int    `json:"frame_bytes"`
	Rings int    `json:"rings"`
	To    string `json:"to"` // nowhere or inMemory

	Command string `json:"command,omitempty"`

	// CPU time of the process per packet in ns: the lower quartile of many times, and the median.
	CPUNs    float64 `json:"cpu_ns"`
	MedianNs float64 `json:"cpu_median_ns"`
	// Packets per second by the clock, on two CPUs: the median.
	Rate    float64 `json:"pps"`
	Packets int     `json:"packets"` // each time
	Missing string  `json:"missing,omitempty"`
}

// A Stall is traffic at a rate into a pipe whose reader stops for a while.
type Stall struct {
	Bytes   int     `json:"frame_bytes"`
	Rate    float64 `json:"pps"`
	Seconds float64 `json:"stall_s"`

	Command string  `json:"command,omitempty"`
	Sent    uint64  `json:"sent"` // in all rounds
	Lost    uint64  `json:"lost"`
	Reached float64 `json:"reached_pps"` // the lowest rate of a round
	Missing string  `json:"missing,omitempty"`
}

// A Cost is the cost of a packet in xdpcap's program in one configuration, and the rate that
// traffic keeps with it.
type Cost struct {
	What      string `json:"what"`
	Transport string `json:"transport,omitempty"`
	Bytes     int    `json:"frame_bytes"`
	Command   string `json:"command,omitempty"`

	// KernelNs is the CPU time in ns by BPF_PROG_RUN minus that of an empty program: the lower
	// quartile of many runs, because other work on the machine can only make a run longer.
	KernelNs *float64 `json:"kernel_ns,omitempty"`
	MedianNs float64  `json:"kernel_median_ns,omitempty"`
	OfDrop   float64  `json:"traffic_of_drop,omitempty"` // unpaced rate of traffic, divided by XDP_DROP's
	Captured float64  `json:"captured_part,omitempty"`   // of the packets to capture
	ReaderUs float64  `json:"reader_us,omitempty"`       // CPU time per captured packet, at that rate
	Missing  string   `json:"missing,omitempty"`
}

// TwoCPUs compares receiving on two CPUs with receiving on one.
type TwoCPUs struct {
	Transport string `json:"transport"`

	// By BPF_PROG_RUN: packets per second of one CPU alone, and of two at once, of an empty program
	// and of the capture's.
	OneEmpty float64 `json:"empty_one_pps"`
	TwoEmpty float64 `json:"empty_two_pps"`
	One      float64 `json:"one_pps"`
	Two      float64 `json:"two_pps"`
	// Scale is Two / (2 One), divided by the same of the empty program.
	Scale float64 `json:"scale"`

	// Traffic from both CPUs, which also run the tool.
	Drop     float64 `json:"traffic_drop_pps"`      // under XDP_DROP without a capture
	Unpaced  float64 `json:"traffic_pps"`           // with --sink
	Keeps    float64 `json:"traffic_keeps"`         // Unpaced divided by Drop, burst by burst
	Captured float64 `json:"traffic_captured_part"` // of the packets of Unpaced
	Rate     float64 `json:"lossless_pps"`          // highest rate without loss
	OfDrop   float64 `json:"lossless_of_drop"`
	Missing  string  `json:"missing,omitempty"`
}

// alwaysLost tells whether packets were lost at every rate that was tried.
func (r Row) alwaysLost() bool {
	return r.Missing == "" && r.Captured > 0 && r.Captured < 1 && r.Rate == 0
}

func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) // an owner that is not root stays the owner
}

func readReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// sheet returns the sheet for a frame size on the wire, nil if there is none.
func (r *Report) sheet(bytes int) *Sheet {
	for i := range r.Frames {
		if r.Frames[i].Bytes == bytes {
			return &r.Frames[i]
		}
	}
	return nil
}

// row returns the figures of a name at a frame size on the wire, all 0 if there are none.
func (r *Report) row(bytes int, name string) Row {
	if s := r.sheet(bytes); s != nil {
		return s.row(name)
	}
	return Row{}
}

func (s *Sheet) row(name string) Row {
	for _, r := range s.Rows {
		if r.Name == name {
			return r
		}
	}
	return Row{}
}

// cost returns the figures of a configuration, all 0 if there are none.
func (r *Report) cost(what, transport string, bytes int) Cost {
	if c := r.findCost(what, transport, bytes); c != nil {
		return *c
	}
	return Cost{}
}

func (r *Report) findCost(what, transport string, bytes int) *Cost {
	for i := range r.Costs {
		if c := &r.Costs[i]; c.What == what && c.Transport == transport && c.Bytes == bytes {
			return c
		}
	}
	return nil
}

// drain returns the figures of filled rings, all 0 if there are none.
func (r *Report) drain(what string, bytes, rings int, to string) Drain {
	for _, d := range r.Drains {
		if d.What == what && d.Bytes == bytes && d.Rings == rings && d.To == to {
			return d
		}
	}
	return Drain{}
}

// file returns the figures of a tool that writes to a file, all 0 if there are none.
func (r *Report) file(bytes int, to, name string) Row {
	for i := range r.Files {
		if s := &r.Files[i]; s.Bytes == bytes && s.To == to {
			return s.row(name)
		}
	}
	return Row{}
}

func (r *Report) stall(bytes int) Stall {
	for _, s := range r.Stalls {
		if s.Bytes == bytes {
			return s
		}
	}
	return Stall{}
}

func (r *Report) twoCPUs(transport string) TwoCPUs {
	for _, t := range r.TwoCPUs {
		if t.Transport == transport {
			return t
		}
	}
	return TwoCPUs{}
}
