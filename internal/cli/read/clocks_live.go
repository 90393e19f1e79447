package read

import (
	"context"
	"fmt"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/follow"
)

const (
	alignWait  = 10 * time.Second       // at most, for packets that streams have in common
	alignPause = 500 * time.Millisecond // between tries
	alignBy    = 100                    // packets that are enough
	alignAgain = 10 * time.Second       // in the packets' time
)

// liveClocks correct the clocks of live streams by that of the first: first by what comes in the
// first seconds, then again and again, because clocks drift.
type liveClocks struct {
	ids   follow.Identifiers
	files []liveClock
	next  int64 // the time of the next correction
}

// A liveClock is the clock of one stream.
type liveClock struct {
	name  string
	seen  sightings     // since the last correction, in corrected times
	found bool          // it was found in the first seconds
	ahead time.Duration // of what its first correction makes of it
}

// correctLive sets the corrections of streams. It waits for packets that they have in common.
func (c *clocks) correctLive(ctx context.Context, p *frame.Process, files []file.InputFile, memory uint64) error {
	c.live = &liveClocks{files: make([]liveClock, len(files))}
	all := make([]follow.Clock, len(files))
	for began := time.Now(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(alignPause):
		}
		enough := true
		seen := make([]sightings, len(files))
		for i := range files {
			seen[i].ids = &c.live.ids
			if err := seen[i].read(files[i], memory); err != nil {
				enough = false // its header has not come yet
			}
			if i > 0 {
				all[i], c.live.files[i].found = seen[0].Of(&seen[i].Sightings)
				enough = enough && all[i].Packets >= alignBy
			}
		}
		if enough || time.Since(began) > alignWait {
			break
		}
	}
	for i := range files {
		f := &c.live.files[i]
		f.name, f.seen.ids = files[i].Name, &c.live.ids
		switch {
		case i == 0:
		case f.found:
			clock := &all[i]
			frame.Say(p.Stderr, "%s", clockText(f.name, files[0].Name, clock))
			files[i].Correct = func(ns int64) int64 { return clock.Correct(ns) - int64(f.ahead) }
		case ctx.Err() == nil:
			frame.Say(p.Stderr, "%s", fmt.Sprintf("%s and %s had fewer than %d packets in common that can be told apart in %v: its times stay as they are; --shift %s=-37.5s corrects them",
				f.name, files[0].Name, follow.FewestCommon, alignWait, f.name))
		}
	}
	return nil
}

// follow corrects the clocks of live streams again by a packet of one of them.
func (c *clocks) follow(s *capture.Source, p *capture.Packet) {
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
	l.next = p.Time + alignAgain.Nanoseconds()
}
