package file

import "github.com/xdpcap/xdpcap/capture"

// lately returns a file's accounts while the session runs: the session's counters minus before,
// what earlier files reported. before is nil for the first file. Packets that are in a ring and not
// yet in a file count as seen only later.
func lately(d *capture.Description, before, taken capture.Accounts) capture.Accounts {
	own := make(capture.Accounts, len(taken))
	for i, t := range taken {
		own[i] = capture.Account{Captured: t.Captured, Bytes: t.Bytes, Seen: t.Captured}
	}
	if d.Accounts == nil {
		return own
	}
	now, err := d.Accounts()
	if err != nil {
		return own // the next file's accounts include it
	}
	for i := range own {
		a, told := &own[i], capture.Account{}
		if before != nil {
			told = before.Of(i)
		}
		// Invalid is left out: at the end an invalid record may count for another source.
		a.FilteredOut = now[i].FilteredOut - told.FilteredOut
		a.NotSampled = now[i].NotSampled - told.NotSampled
		a.Lost = now[i].Lost - told.Lost
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
// captured, because it was asked not to take more. The others count as not sampled.
func passedOver(as, taken capture.Accounts) capture.Accounts {
	own := as.Delivered(taken)
	for i := range own {
		refused := own[i].NotTaken - as[i].NotTaken
		own[i].NotSampled += refused
		own[i].Lost -= refused
		own[i].NotTaken -= refused
	}
	return own
}
