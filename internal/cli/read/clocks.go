package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/follow"
)

// clocks correct the times in files.
type clocks struct {
	shifts []string    // --shift: FILE=TIME
	align  bool        // find the corrections by packets that files have in common
	live   *liveClocks // for streams; nil for files
}

func (c *clocks) flags() []frame.Flag {
	return []frame.Flag{
		{Name: "shift", Value: &c.shifts, Settings: frame.CommandLineOnly,
			Help: "add a time to all times in a file, as in `FILE=TIME`: b.pcapng=-37.5s; repeat it for several files"},
		{Name: "align", Value: &c.align, Settings: frame.CommandLineOnly,
			Help: "correct the times of all files but the first by the packets that they have in common with it: by how much, and how sure that is, is printed"},
	}
}

// isGiven reports whether any times are corrected.
func (c *clocks) isGiven() bool { return c.align || len(c.shifts) > 0 }

// correct sets the function Correct of each file to be corrected.
func (c *clocks) correct(ctx context.Context, p *frame.Process, files []file.InputFile, memory uint64) error {
	for _, shift := range c.shifts {
		if err := shiftFile(files, shift); err != nil {
			return err
		}
	}
	if !c.align {
		return nil
	}
	if len(files) < 2 {
		return errors.New("--align compares the clocks of several files: name two or more")
	}
	isStream := func(f file.InputFile) bool { return f.Late != nil }
	if slices.ContainsFunc(files, isStream) {
		return c.correctLive(ctx, p, files, memory)
	}
	seen, ids := make([]sightings, len(files)), new(follow.Identifiers)
	for i := range files {
		seen[i].ids = ids
		if err := seen[i].read(files[i], memory); err != nil {
			return err
		}
	}
	for i := 1; i < len(files); i++ {
		clock, ok := seen[0].Of(&seen[i].Sightings)
		if !ok {
			return fmt.Errorf("--align: %s and %s have fewer than %d packets in common that can be told apart: give their difference by --shift %s=TIME",
				files[0].Name, files[i].Name, follow.FewestCommon, files[i].Name)
		}
		frame.Say(p.Stderr, "%s", clockText(files[i].Name, files[0].Name, &clock))
		files[i].Correct = clock.Correct
	}
	return nil
}

// shiftFile sets the correction of the file that FILE=TIME names.
func shiftFile(files []file.InputFile, shift string) error {
	at := strings.LastIndexByte(shift, '=')
	if at < 0 {
		return fmt.Errorf("--shift %s: must be a file and a time, as in %s=-37.5s", shift, files[len(files)-1].Name)
	}
	name, text := shift[:at], shift[at+1:]
	if strings.Trim(text, "-+.0123456789") == "" {
		text += "s"
	}
	by, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("--shift %s: %s is no time: a number of seconds, or with a unit as in -37.5s, 12us, 1h", shift, shift[at+1:])
	}
	for i := range files {
		if f := &files[i]; f.Name == name || filepath.Base(f.Name) == name {
			f.Correct = func(ns int64) int64 { return ns + int64(by) }
			return nil
		}
	}
	return fmt.Errorf("--shift %s: no file that is read is called %s", shift, name)
}

// sightings are the times of the packets of a file, for a comparison of clocks. A packet that two
// files have in common has the same identifier in both.
type sightings struct {
	follow.Sightings
	ids     *follow.Identifiers // give packets their identifiers; shared by all files
	packets int                 // that a suspicion has added
}

func (s *sightings) add(source *capture.Source, p *capture.Packet) {
	if id, ok := s.ids.Of(source, p); ok && p.HasTime() {
		s.Add(id, p.Time)
	}
}

// read adds all packets of a file, and rewinds it. Of a live stream it adds the packets received so
// far, which stay unread.
func (s *sightings) read(f file.InputFile, memory uint64) error {
	opened, isRegular := regular(f)
	stream, isLive := f.In.(*pump)
	switch {
	case isLive:
		f.In, f.Waits, f.Late = stream.received(), false, nil // in this copy of f
	case !isRegular:
		return fmt.Errorf("--align reads files twice, and %s cannot be: write it to a file first", f.Name)
	}
	in, err := file.NewInput([]file.InputFile{f}, file.InputOptions{Memory: memory, Match: func(source *capture.Source, p *capture.Packet) bool {
		s.add(source, p)
		return false
	}})
	if err != nil {
		return err
	}
	defer in.Close()
	for packets := make([]capture.Packet, 1); err == nil; {
		_, err = in.Read(packets, nil) // the second reading reports errors
	}
	if isLive {
		return nil
	}
	_, err = opened.Seek(0, io.SeekStart)
	return err
}

// clockText is the message about a clock's difference from the reference, and its error bounds.
func clockText(name, reference string, c *follow.Clock) string {
	drift := fmt.Sprintf("drift %.2g ppm, +-%.2g", c.Drift*1e6, c.DriftWithin*1e6)
	if c.Drift == 0 {
		drift = fmt.Sprintf("drift less than %.2g ppm", c.DriftWithin*1e6)
	}
	return fmt.Sprintf("%s is %s %s (+-%.1f us, %s), by %s that both have", name, aheadOf(c), reference,
		float64(c.Within.Nanoseconds())/1e3, drift, frame.Packets(uint64(c.Packets)))
}

// aheadOf is the words of a message between two names: "0.000125 s ahead of".
func aheadOf(c *follow.Clock) string {
	if c.Ahead < 0 {
		return fmt.Sprintf("%.6f s behind", -c.Ahead.Seconds())
	}
	return fmt.Sprintf("%.6f s ahead of", c.Ahead.Seconds())
}

// A suspicion compares the packets of several files, to report clocks that differ. It corrects
// nothing.
type suspicion struct {
	ids   follow.Identifiers
	seen  map[string]*sightings // by file
	limit int                   // of the packets of each file that are compared; 0 = none
}

func (c *suspicion) add(s *capture.Source, p *capture.Packet) {
	if c.seen == nil {
		c.seen = make(map[string]*sightings)
	}
	if c.seen[s.File] == nil {
		c.seen[s.File] = &sightings{ids: &c.ids}
	}
	if seen := c.seen[s.File]; c.limit == 0 || seen.packets < c.limit {
		seen.packets++
		seen.add(s, p)
	}
}

// Where lines are printed, these limits keep the cost of a suspicion small.
const (
	maxComparedFiles   = 4
	maxComparedPackets = 1 << 14 // of each file
)

// suspectDifference is longer than a packet takes from host to host in most networks.
const suspectDifference = 500 * time.Millisecond

// report reports the clocks that differ from the clock of the first file.
func (c *suspicion) report(notice func(error)) {
	c.eachSuspect(func(file, first string, clock *follow.Clock) {
		notice(fmt.Errorf("by %s that both have, the clock of %s is %s that of %s, so their packets are not joined: --align corrects that",
			frame.Packets(uint64(clock.Packets)), file, aheadOf(clock), first))
	})
}

// eachSuspect calls f for each file whose clock differs from the clock of the first one.
func (c *suspicion) eachSuspect(f func(file, first string, clock *follow.Clock)) {
	files := slices.Sorted(maps.Keys(c.seen))
	for i := 1; i < len(files); i++ {
		if clock, ok := c.seen[files[0]].Of(&c.seen[files[i]].Sightings); ok && clock.Ahead.Abs() > suspectDifference {
			f(files[i], files[0], &clock)
		}
	}
}

// reportCopies reports the files that have most of their packets in common with the first file, at
// other times. Consecutive files of one capture may have a few equal packets.
func (c *suspicion) reportCopies(p *frame.Process) {
	c.eachSuspect(func(file, first string, clock *follow.Clock) {
		if 2*clock.Packets >= min(c.seen[first].Len(), c.seen[file].Len()) {
			frame.Say(p.Stderr, "%s and %s have %s in common, %.6g s apart: --align corrects that", first, file,
				frame.Packets(uint64(clock.Packets)), clock.Ahead.Abs().Seconds())
		}
	})
}
