package file

import "github.com/xdpcap/xdpcap/capture"

// accountsSoFar returns the accounts of the current file while the session runs: the session's
// counters minus reported, the sum of the statistics that were already written. taken has the
// packets in all files so far, this one included. A packet that is still in a ring counts as seen
// only when it is in a file.
func accountsSoFar(d *capture.Description, reported, taken capture.Accounts) capture.Accounts {
	own := taken.Plus(make(capture.Accounts, len(reported))) // a copy, at least as long as reported
	for i, earlier := range reported {
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
		a, earlier := own.At(i), reported.Of(i)
		// Invalid stays 0, because the end of the session may assign an invalid record to another
		// source. Lost are only packets that found no room in a ring; those that the output did not
		// take are added at the end, except those of sources that have gone.
		a.FilteredOut = now[i].FilteredOut - earlier.FilteredOut
		a.NotSampled = now[i].NotSampled - earlier.NotSampled
		a.Lost = now[i].Dropped() - earlier.Dropped()
		a.Seen = a.FilteredOut + a.NotSampled + a.Lost + a.Captured
	}
	return own
}

// withRefused returns the accounts of an output with the packets counted as lost that it took but
// that did not reach its disk. refused has these packets.
func withRefused(as, refused capture.Accounts) capture.Accounts {
	own := as.Plus(make(capture.Accounts, len(refused)))
	for i, t := range refused {
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
		// Delivered has counted these as lost. Those that are reported as not taken stay so.
		omitted := own[i].NotTaken - as[i].NotTaken - reported.Of(i).NotTaken
		own[i].NotSampled += omitted
		own[i].Lost -= omitted
		own[i].NotTaken -= omitted
	}
	return own
}
