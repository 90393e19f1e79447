package file

import "github.com/xdpcap/xdpcap/capture"

// lately returns a file's accounts while the session runs: the session's counters minus before,
// what earlier statistics reported. taken has the packets in all files so far. Packets that are in
// a ring and not yet in a file count as seen only later.
func lately(d *capture.Description, before, taken capture.Accounts) capture.Accounts {
	own := taken.Plus(make(capture.Accounts, len(before)))
	for i, told := range before {
		own[i].Captured -= told.Captured
		own[i].Bytes -= told.Bytes
	}
	for i := range own {
		own[i].Seen = own[i].Captured
	}
	if d.Accounts == nil {
		return own
	}
	now, err := d.Accounts()
	if err != nil {
		return own // the next file's accounts include it
	}
	for i := range now {
		a, told := own.At(i), before.Of(i)
		// Invalid is left out: at the end an invalid record may count for another source. Packets
		// that are not taken are lost at the end, too, but for sources that have gone.
		a.FilteredOut = now[i].FilteredOut - told.FilteredOut
		a.NotSampled = now[i].NotSampled - told.NotSampled
		a.Lost = now[i].Dropped() - told.Dropped()
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
// captured, because it was asked not to take more. The others count as not sampled, but for those
// that the statistics of sources that have gone already count as lost.
func passedOver(as, taken, told capture.Accounts) capture.Accounts {
	own := as.Delivered(taken)
	for i := range own {
		refused := own[i].NotTaken - as[i].NotTaken - told.Of(i).NotTaken
		own[i].NotSampled += refused
		own[i].Lost -= refused
		own[i].NotTaken -= refused
	}
	return own
}
