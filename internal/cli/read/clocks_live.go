package read

import (
	"context"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/follow"
)

const (
	alignTimeout    = 10 * time.Second       // of the first alignment
	alignRetry      = 500 * time.Millisecond // between its attempts
	enoughCommon    = 100                    // packets in common, with which it ends early
	realignInterval = 10 * time.Second       // in the packets' time
)

// liveClocks correct the clocks of live streams by the clock of the first: once by the packets of
// the first seconds, then every realignInterval, because clocks drift.
type liveClocks struct {
	ids   follow.Identifiers
	files []liveClock
	next  int64 // the time of the next correction, in ns since 1970
}

// A liveClock is the clock of one stream.
type liveClock struct {
	name  string
	seen  sightings     // since the last correction, in corrected times
	found bool          // the first alignment has succeeded
	ahead time.Duration // the sum of the later corrections
}

// correctLive is correct for streams. It waits for packets that they have in common.
func (c *clocks) correctLive(ctx context.Context, p *frame.Process, files []file.InputFile, memory uint64) error {
	c.live = &liveClocks{files: make([]liveClock, len(files))}
	first := make([]follow.Clock, len(files))
	for began := time.Now(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(alignRetry):
		}
		enough := true
		seen := make([]sightings, len(files))
		for i := range files {
			seen[i].ids = &c.live.ids
			if err := seen[i].read(files[i], memory); err != nil {
				enough = false // its header has not come yet
			}
			if i > 0 {
				first[i], c.live.files[i].found = seen[0].Of(&seen[i].Sightings)
				enough = enough && first[i].Packets >= enoughCommon
			}
		}
		if enough || time.Since(began) > alignTimeout {
			break
		}
	}
	for i := range files {
		f := &c.live.files[i]
		f.name, f.seen.ids = files[i].Name, &c.live.ids
		switch {
		case i == 0:
		case f.found:
			clock := &first[i]
			frame.Say(p.Stderr, "%s", clockText(f.name, files[0].Name, clock))
			files[i].Correct = func(ns int64) int64 { return clock.Correct(ns) - int64(f.ahead) }
		case ctx.Err() == nil:
			frame.Say(p.Stderr, "%s and %s had fewer than %d packets in common that can be told apart in %v: its times stay as they are; --shift %s=-37.5s corrects them",
				f.name, files[0].Name, follow.FewestCommon, alignTimeout, f.name)
		}
	}
	return nil
}

// realign adds a packet to the sightings of its live stream, and corrects the clocks again after
// each realignInterval. It does nothing for files.
func (c *clocks) realign(s *capture.Source, p *capture.Packet) {
	l := c.live
	if l == nil || !p.HasTime() {
		return
	}
	for i := range l.files {
		if f := &l.files[i]; f.name == s.File {
			f.seen.add(s, p)
		}
	}
	if p.Time < l.next {
		return
	}
	for i := 1; l.next > 0 && i < len(l.files); i++ {
		f := &l.files[i]
		if clock, ok := l.files[0].seen.Of(&f.seen.Sightings); ok && f.found {
			f.ahead += clock.Ahead
		}
	}
	for i := range l.files {
		l.files[i].seen.Sightings = follow.Sightings{}
	}
	l.next = p.Time + realignInterval.Nanoseconds()
}
