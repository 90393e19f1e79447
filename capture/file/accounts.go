package file

import "github.com/xdpcap/xdpcap/capture"

// accountsSoFar returns the accounts of the current file while the session runs: the session's
// counters minus `reported`, the sum of the statistics in earlier files. taken has the packets in
// all files so far, including this one. A packet that is still in a ring counts as seen only when
// it is in a file.
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
		// source. Lost counts only packets that found no room in a ring. The end adds packets that
		// the output did not take, except those of sources that have gone.
		a.FilteredOut = now[i].FilteredOut - earlier.FilteredOut
		a.NotSampled = now[i].NotSampled - earlier.NotSampled
		a.Lost = now[i].Dropped() - earlier.Dropped()
		a.Seen = a.FilteredOut + a.NotSampled + a.Lost + a.Captured
	}
	return own
}

// withUnstored returns the accounts of an output after packets that it had taken did not reach the
// disk. unstored has these packets, which then count as lost.
func withUnstored(as, unstored capture.Accounts) capture.Accounts {
	own := as.Plus(make(capture.Accounts, len(unstored))) // a copy, at least as long as unstored
	for i, r := range unstored {
		own[i].Captured -= r.Captured
		own[i].Bytes -= r.Bytes
		own[i].Lost += r.Captured
		own[i].NotTaken += r.Captured
	}
	return own
}

// passedOver returns the accounts of an output that took only some of the packets that the session
// captured, because a limit was reached. The other packets count as not sampled, unless the
// statistics of a source that has gone already count them as lost.
func passedOver(as, taken, reported capture.Accounts) capture.Accounts {
	own := as.Delivered(taken) // counts the other packets as lost
	for i := range own {
		omitted := own[i].NotTaken - as[i].NotTaken - reported.Of(i).NotTaken
		own[i].NotSampled += omitted
		own[i].Lost -= omitted
		own[i].NotTaken -= omitted
	}
	return own
}
