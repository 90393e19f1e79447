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

// printCounts prints the counts so far, which SIGUSR1 requests. After an error it prints nothing,
// because the end of the capture reports the error.
func (r *captureRun) printCounts() {
	all, err := r.accountsNow()
	switch err = errors.Join(err, r.readCompanions()); {
	case err != nil:
	case r.objects != nil:
		r.printSummary(all, nil)
	default:
		r.writeAccounts(all, "captured so far")
	}
}

// writeAccounts prints the accounts of the outputs, with the verb "captured" or "captured so far".
func (r *captureRun) writeAccounts(all []capture.Accounts, verb string) {
	if r.o.account && len(r.Outputs) == 0 {
		verb = strings.Replace(verb, "captured", "counted", 1) // no packet was kept
	}
	total := all[0].Total()
	writeCounts(r.text, total, verb)
	r.writeFilters(all[0])
	r.writeSeries(all)
	if end := r.endBeforeNotSampled(&total); end != "" {
		frame.Say(r.text, "the %s not sampled came after %s", frame.Packets(total.NotSampled), end)
	}
	writeStamps(r.text, r.session, all[0])
	r.writeOutputs(all)
	r.writeCompanions()
}

// endBeforeNotSampled returns the reason why the capture ended, if all packets that were not
// sampled came after the end; "" = sampling may have passed over them.
func (r *captureRun) endBeforeNotSampled(a *capture.Account) string {
	o := r.o
	samples := o.session.SampleFlows > 1 || o.session.First > 0 || o.session.MaxRate > 0 ||
		o.sample.oneIn > 1 || o.sample.verdicts != nil || o.sample.auto || o.recorder.size.Bytes > 0
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

// accountsNow returns the accounts of the outputs so far, at least one: without -w and --serve it
// is that of the printed packets, and with --account that of the session.
func (r *captureRun) accountsNow() (all []capture.Accounts, err error) {
	for _, out := range r.Outputs {
		own, err := out.Accounts(r.session.Accounts)
		if err != nil {
			return nil, err
		}
		all = append(all, own)
	}
	if all != nil {
		return all, nil
	}
	var own capture.Accounts
	if r.printed != nil {
		own, err = r.printed.Accounts(r.session.Accounts)
	} else {
		own, err = r.session.Accounts()
	}
	return []capture.Accounts{own}, err
}

// readCompanions reads the counters beside the packets.
func (r *captureRun) readCompanions() (err error) {
	r.counted, err = r.companions.reports()
	return err
}

// writeCompanions prints the tables of the last readCompanions.
func (r *captureRun) writeCompanions() {
	for _, table := range r.counted.tables {
		var b bytes.Buffer
		table(r.page(&b))
		fmt.Fprintf(r.text, "\n%s", b.Bytes())
	}
}

// page returns a page with the properties of the terminal for messages, whose text goes into b.
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
