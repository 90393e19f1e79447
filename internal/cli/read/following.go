package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/follow"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/message"
)

// checkFollow refuses flags that have no effect, or another one, with --follow.
func (o *Options) checkFollow() error {
	switch {
	case o.stats:
		return errors.New("--follow and --stats are both printed instead of packets: choose one")
	case len(o.Writes) > 0:
		return errors.New("--follow prints where each packet was seen, and a file has no room for that: omit -w, and redirect what is printed")
	case o.Live.Serve != "":
		return errors.New("--follow prints where each packet was seen, and a stream has no room for that: omit --serve")
	case o.Format != "" && (!o.json || o.Format != file.JSON.String()):
		return errors.New("--follow has no lines of --format " + o.Format + ": omit it; --json prints an object for each packet")
	}
	return nil
}

// readLimit is the number of packets of the files after which the reading ends; 0 = none. With
// --follow, -c limits the followed packets instead.
func (o *Options) readLimit() uint64 {
	if o.follow && o.page.path == "" {
		return 0
	}
	return o.Count
}

// following is an output that prints each packet once, with the places where it was seen.
type following struct {
	o       *Options
	in      *file.Input
	notice  func(error)
	sources []capture.Source
	table   *follow.Table
	clocks  *suspicion // nil with one file, or if clocks are corrected
	words   *lines.Text
	objects *lines.JSONEncoder // nil without --json

	text    []byte // not printed yet
	printed uint64 // packets, including those in text
}

// leadWidth is the width of the time since the first place, before each further place of a packet.
const leadWidth = 15

// followText is the size in bytes at which text is printed.
const followText = 64 << 10

func newFollowing(o *Options, in *file.Input) *following {
	f := &following{o: o, in: in}
	if len(o.files) > 1 && !o.clocks.isGiven() {
		f.clocks = new(suspicion)
	}
	f.table = follow.New(f.addWay)
	return f
}

// Begin implements capture.Output.
func (f *following) Begin(d capture.Description) error {
	f.notice = d.Notice
	format := f.o.printing.Format(!f.o.json && frame.Colored("auto", f.o.Process.Stdout.File))
	format.NamesSources = true
	f.words = lines.NewText(&d, format)
	if f.o.json {
		f.objects = lines.NewJSONEncoder(&d, lines.NewObjects(f.in, format, len(f.o.files) > 1).Append)
	}
	return nil
}

// Write implements capture.Output.
func (f *following) Write(packets []capture.Packet) error {
	f.sources = append(f.sources, f.in.SourcesFrom(len(f.sources))...)
	if f.objects != nil {
		f.objects.AddSources()
	}
	f.words.AddSources()
	for i := range packets {
		p := &packets[i]
		if f.clocks != nil {
			f.clocks.add(&f.sources[p.Source], p)
		}
		r := f.table.Add(&f.sources[p.Source], p)
		r.Place = f.words.Place(p)
		switch {
		case f.objects != nil:
			r.Text = f.objects.Append(nil, p)
		case r.First:
			r.Text = f.words.Append(nil, p)
		default:
			r.Text = f.words.AppendOrigin(nil, p)
		}
	}
	if len(f.text) >= followText {
		return f.print()
	}
	return nil
}

// addWay adds a packet with all its records to the text. After -c packets it ends the reading.
func (f *following) addWay(w *follow.Way) {
	if f.isFull() {
		return
	}
	f.printed++
	if f.objects != nil {
		f.text = appendObject(f.text, w)
	} else {
		f.text = appendWay(f.text, w)
	}
	if f.isFull() {
		f.in.Stop()
	}
}

func (f *following) isFull() bool { return f.o.Count > 0 && f.printed >= f.o.Count }

// Flush implements capture.Output.
func (f *following) Flush() error {
	if err := f.print(); err != nil {
		return err
	}
	return frame.ExplainPrint(f.o.Process.Stdout.Check())
}

func (f *following) print() error {
	_, err := f.o.Process.Stdout.Write(f.text)
	f.text = f.text[:0]
	return frame.ExplainPrint(err)
}

// End prints the packets of which more records could still come.
func (f *following) End(final capture.Accounts) (capture.Accounts, error) {
	f.table.Close()
	if n := f.table.Early(); n > 0 {
		f.notice(fmt.Errorf("followed %s for less than %v, because more than %d records, or %d MiB of text, came in that time: choose fewer by a filter",
			frame.Packets(n), follow.Window, follow.MaxRecords, follow.MaxText>>20))
	}
	if f.clocks != nil {
		f.clocks.report(f.notice)
	}
	return final, f.print()
}

// appendWay appends the line of a packet where it was seen first, and a line for each further
// place, with the time since the first. w.Unclear has records that fit this packet and others.
func appendWay(b []byte, w *follow.Way) []byte {
	first := w.Records[0]
	b = append(b, first.Text...)
	if w.Fits > 0 {
		b = fmt.Appendf(b, "%*s fits %d packets\n", leadWidth, "ambiguous:", w.Fits)
	}
	for _, r := range w.Records[1:] {
		b = fmt.Appendf(b, "%*s %s", leadWidth, fmt.Sprintf("%+.3f us", float64(r.Time-first.Time)/1e3), r.Text)
		switch {
		case r.Holds(first): // GRO has merged it with others
			b = fmt.Appendf(b, " in a packet of %d bytes", r.WireLen)
		case first.Holds(r): // GSO has cut it into parts
			b = fmt.Appendf(b, " %d bytes of it", r.WireLen)
		}
		b = append(b, '\n')
	}
	for _, r := range w.Unclear {
		b = fmt.Appendf(b, "%*s %s\n", leadWidth, "ambiguous:", r.Place)
	}
	return b
}

// appendObject appends a packet's object of JSON, on a line.
func appendObject(b []byte, w *follow.Way) []byte {
	first := w.Records[0]
	b = append(b, `{"records":[`...)
	for i, r := range w.Records {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, bytes.TrimSuffix(r.Text, []byte("}\n"))...)
		b = append(strconv.AppendInt(append(b, `,"after_ns":`...), r.Time-first.Time, 10), '}')
	}
	b = append(b, ']')
	if w.Fits > 0 {
		b = strconv.AppendInt(append(b, `,"fits":`...), int64(w.Fits), 10)
	}
	if len(w.Unclear) > 0 {
		var places []string
		for _, r := range w.Unclear {
			places = append(places, r.Place)
		}
		list, err := json.Marshal(places)
		if err == nil { // always, of strings
			b = append(append(b, `,"ambiguous_at":`...), message.EscapeJSON(list)...)
		}
	}
	return append(b, "}\n"...)
}
