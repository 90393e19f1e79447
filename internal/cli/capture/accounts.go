package capture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// printCounts prints the counts so far.
func (r *captureRun) printCounts() {
	all, err := r.accountsNow()
	err = errors.Join(err, r.count())
	switch {
	case err != nil:
	case r.objects != nil:
		r.printSummary(all, nil)
	default:
		r.writeAccounts(all, "captured so far")
	}
}

// writeAccounts prints the accounts of the outputs.
func (r *captureRun) writeAccounts(all []capture.Accounts, what string) {
	if r.o.account && len(r.Outputs) == 0 {
		what = strings.Replace(what, "captured", "counted", 1) // none was kept
	}
	total := all[0].Total()
	writeCounts(r.text, total, what)
	r.writeFilters(all[0])
	r.writeSeries(all)
	if why := r.afterEnd(&total); why != "" {
		frame.Say(r.text, "the %s not sampled came after %s", frame.Packets(total.NotSampled), why)
	}
	writeStamps(r.text, r.session, all[0])
	r.writeOutputs(all)
	r.writeCompanions()
}

// afterEnd returns why the capture ended, if all packets that were not sampled came after that; ""
// = sampling passed over some.
func (r *captureRun) afterEnd(a *capture.Account) string {
	o := r.o
	samples := o.session.SampleFlows > 1 || o.session.First > 0 || o.session.MaxRate > 0 || o.sample.oneIn > 1 || o.sample.verdicts != nil ||
		o.sample.auto || o.recorder.size.Bytes > 0
	switch {
	case samples || a.NotSampled == 0:
		return ""
	case r.printed != nil && r.printed.Gone:
		return "the reader of standard output ended"
	case o.Count > 0 && a.Captured >= o.Count:
		return cmp.Or(o.Counted, "-c") + " was reached"
	}
	return ""
}

// accountsNow returns the accounts of the outputs so far. Without an output, packets are only
// counted, and the accounts are those of the session.
func (r *captureRun) accountsNow() (all []capture.Accounts, err error) {
	for _, out := range r.Outputs {
		own, err := out.Accounts(r.session.Accounts)
		if err != nil {
			return nil, err
		}
		all = append(all, own)
	}
	if all == nil && r.printed != nil {
		own, err := r.printed.Accounts(r.session.Accounts)
		return []capture.Accounts{own}, err
	}
	if all == nil {
		own, err := r.session.Accounts()
		return []capture.Accounts{own}, err
	}
	return all, nil
}

// count reads the counters beside the packets.
func (r *captureRun) count() (err error) {
	r.counted, err = r.companions.reports()
	return err
}

// writeCompanions prints what count has read.
func (r *captureRun) writeCompanions() {
	for _, table := range r.counted.tables {
		var b bytes.Buffer
		table(r.page(&b))
		fmt.Fprintf(r.text, "\n%s", b.Bytes())
	}
}

// page is a page like that of the messages, whose text goes into b.
func (r *captureRun) page(b *bytes.Buffer) *frame.Page {
	p := &frame.Page{}
	if r.text == r.o.Process.Stderr {
		p = frame.NewPage(r.o.Process.Stderr.File(), "auto")
	}
	p.Writer = b
	return p
}

// indexOfFile returns the index of the output to which the flags about files apply, a file or a
// series; negative = there is none.
func (r *captureRun) indexOfFile() int {
	return slices.IndexFunc(r.Outputs, func(out outputs.Named) bool {
		_, is := out.Live.(*file.File)
		return is && out.Name == r.o.Write
	})
}

// writeSeries prints how many files of a series exist, with how many packets from which time.
func (r *captureRun) writeSeries(all []capture.Accounts) {
	i := r.indexOfFile()
	if i < 0 || r.o.Series == nil {
		return
	}
	e, captured := r.Outputs[i].Live.(*file.File).Existing(), all[i].Total().Captured
	if e.Files == 0 {
		return
	}
	now, gone := time.Now(), ""
	if n := captured - min(captured, e.Packets); n > 0 {
		gone = fmt.Sprintf("; %s were in files that are no longer there", frame.Packets(n))
	}
	frame.Say(r.text, "%s: %s with %s, %s to %s%s", r.o.Write, frame.Several(e.Files, "file"), frame.Packets(e.Packets),
		formatPast(e.Since, now), formatPast(now, now), gone)
}
