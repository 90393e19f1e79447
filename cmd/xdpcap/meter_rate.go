package main

import (
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// A rate is packets and bytes as the counter commands show them: what was counted since the start, and how
// fast in the interval. Its keys are those of the JSON objects.
type rate struct {
	Packets uint64  `json:"packets"`
	Bytes   uint64  `json:"bytes"`
	PPS     float64 `json:"packets_per_s"`
	BPS     float64 `json:"bits_per_s"`
}

func newRate(before, now meter.Tally, took time.Duration) rate {
	return rate{
		Packets: now.Packets,
		Bytes:   now.Bytes,
		PPS:     perSecond(before.Packets, now.Packets, took),
		BPS:     8 * perSecond(before.Bytes, now.Bytes, took),
	}
}

// rateColumns are the titles of cells.
var rateColumns = []string{"PACKETS", "BYTES", "PACKETS/S", "BIT/S"}

func (r rate) cells() []string {
	return []string{
		strconv.FormatUint(r.Packets, 10),
		strconv.FormatUint(r.Bytes, 10),
		scaled(r.PPS),
		scaled(r.BPS),
	}
}

// row is a line of a table.
func (r rate) row(names ...string) []string { return append(names, r.cells()...) }
