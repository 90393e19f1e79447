package file

import "github.com/xdpcap/xdpcap/capture"

// accountsSoFar returns a file's accounts while the session runs: the session's counters minus
// before, the sum of earlier statistics. taken has the packets in all files so far. A packet that
// is still in a ring counts as seen only when a file has it.
func accountsSoFar(d *capture.Description, before, taken capture.Accounts) capture.Accounts {
	own := taken.Plus(make(capture.Accounts, len(before)))
	for i, earlier := range before {
		own[i].Captured -= earlier.Captured
		own[i].Bytes -= earlier.Bytes
	}
	for i := range own {
		own[i].Seen = own[i].Captured
	}
	if d.Accounts == nil {
		return own
	}
	now, err := d.Accounts()
	if err != nil {
		return own // the next file's accounts include the difference
	}
	for i := range now {
		a, earlier := own.At(i), before.Of(i)
		// Invalid is left out, because the end of the session may assign an invalid record to
		// another source. Packets that are not taken also count as lost at the end, except those of
		// sources that have gone.
		a.FilteredOut = now[i].FilteredOut - earlier.FilteredOut
		a.NotSampled = now[i].NotSampled - earlier.NotSampled
		a.Lost = now[i].Dropped() - earlier.Dropped()
		a.Seen = a.FilteredOut + a.NotSampled + a.Lost + a.Captured
	}
	return own
}

// refuse counts packets as lost that an output took but that did not reach its disk.
func refuse(as, taken capture.Accounts) capture.Accounts {
	own := as.Plus(make(capture.Accounts, len(taken)))
	for i, t := range taken {
		own[i].Captured -= t.Captured
		own[i].Bytes -= t.Bytes
		own[i].Lost += t.Captured
		own[i].NotTaken += t.Captured
	}
	return own
}

// passedOver returns the accounts of an output that took only some of the packets that the session
// captured, because a limit was reached. The other packets count as not sampled, unless the
// statistics of a source that has gone already count them as lost.
func passedOver(as, taken, reported capture.Accounts) capture.Accounts {
	own := as.Delivered(taken)
	for i := range own {
		refused := own[i].NotTaken - as[i].NotTaken - reported.Of(i).NotTaken
		own[i].NotSampled += refused
		own[i].Lost -= refused
		own[i].NotTaken -= refused
	}
	return own
}
