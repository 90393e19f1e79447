package capture

import (
	"fmt"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// A captureReading has the numbers of a capture for one scrape.
type captureReading struct {
	series   []sourceSeries
	fileSize int64                 // bytes of all files that are there; -1 = there is no file
	clients  *stream.ServerAccount // of --serve; nil = there is none
	outputs  []outputs.Summary     // as at the end
}

// A sourceSeries is the account of a source, under its labels.
type sourceSeries struct {
	labels [4]string // the interface, the hook, the program that is traced there, and its id
	capture.Account
}

// seriesOf returns the accounts of the sources by their labels. The accounts of sources with the
// same labels are added up: an interface may have been removed and created again. Labels whose
// sources have all gone are omitted. gone has the indexes of the sources that have gone.
func seriesOf(sources []capture.Source, gone []int, accounts capture.Accounts) (all []sourceSeries) {
	indices := make(map[[4]string]int)
	left := make(map[int]bool)
	for _, i := range gone {
		left[i] = true
	}
	for i := range sources {
		if !left[i] {
			indices[labelsOf(&sources[i])] = -1
		}
	}
	for i := range sources {
		labels := labelsOf(&sources[i])
		at, ok := indices[labels]
		switch {
		case !ok:
			continue
		case at < 0:
			at = len(all)
			indices[labels], all = at, append(all, sourceSeries{labels: labels})
		}
		s := &all[at]
		s.Account = capture.Accounts{s.Account, accounts.Of(i)}.Total()
	}
	return all
}

func labelsOf(src *capture.Source) [4]string {
	return [...]string{src.Name, src.Hook.String(), src.Target.Name, programNumber(src.Target)}
}

// read reads the numbers for a scrape. It is called while the session runs, and while it ends.
func (r *captureRun) read() (c captureReading, err error) {
	c.fileSize = -1
	for _, d := range r.Opened {
		if f, ok := d.(*file.File); ok {
			c.fileSize = max(c.fileSize, 0) + f.Kept()
		}
		if server, ok := d.(server); ok {
			a := server.Account()
			c.clients = &a
		}
	}
	all, err := r.accountsNow()
	if err != nil {
		return c, err
	}
	if c.outputs = r.outputSummaries(all); r.recorder != nil {
		for i, n := range r.recorder.Overwritten() {
			all[0].At(i).NotRecorded = n
		}
	}
	sources := r.session.Sources()
	own, _ := r.divide(all[0], sources, false)
	c.series = seriesOf(sources, r.session.Gone(), own)
	return c, nil
}

// Metrics returns the metrics of a capture: for each source the numbers of its account, and metrics
// of the whole capture, its outputs and its clients.
func Metrics(transport capture.Transport, started time.Time) (m metrics.Set[captureReading]) {
	account := func(name, help string, of func(capture.Account) uint64) {
		m.Count("xdpcap_"+name+"_total", help, []string{"interface", "hook", "program", "program_id"}, func(c captureReading, send metrics.SendValue) {
			for _, s := range c.series {
				send(float64(of(s.Account)), s.labels[:]...)
			}
		})
	}
	account("seen_packets", "Packets that reached the hook.", func(a capture.Account) uint64 { return a.Seen })
	account("filtered_out_packets", "Packets that the filter did not match.", func(a capture.Account) uint64 { return a.FilteredOut })
	account("undecided_packets", "Those of the packets filtered out that could not be decided: later fragments of which --fragments has not seen the first one, and packets at the entry of an XDP program whose exit was not seen.", func(a capture.Account) uint64 { return a.Undecided })
	account("not_sampled_packets", "Packets that sampling passed over, or that came after -c was reached.", func(a capture.Account) uint64 { return a.NotSampled })
	account("not_recorded_packets", "Packets that a recorder had in memory and overwrote before it wrote them.", func(a capture.Account) uint64 { return a.NotRecorded })
	account("lost_packets", "Packets that found their ring full, or that the output did not take.", func(a capture.Account) uint64 { return a.Lost })
	account("not_taken_packets", "Those of the lost packets that the output did not take.", func(a capture.Account) uint64 { return a.NotTaken })
	account("invalid_packets", "Packets whose record arrived damaged.", func(a capture.Account) uint64 { return a.Invalid })
	account("passed_by_packets", "Packets, at least, that the interface has counted and that did not pass the hook. They are in no other number.", func(a capture.Account) uint64 { return a.PassedBy })
	account("captured_packets", "Packets that were captured.", func(a capture.Account) uint64 { return a.Captured })
	account("captured_bytes", "Bytes of the captured packets, after -s.", func(a capture.Account) uint64 { return a.Bytes })

	gauge := func(name, help string, labels []string, values func(captureReading, metrics.SendValue)) {
		m.All = append(m.All, metrics.Metric[captureReading]{Name: "xdpcap_" + name, Help: help, Gauge: true, Labels: labels, Values: values})
	}
	gauge("output_file_bytes", "Size in bytes of the file that packets are written to, or of all files of a rotation that still exist; missing without a file.", nil, func(c captureReading, send metrics.SendValue) {
		if c.fileSize >= 0 {
			send(float64(c.fileSize))
		}
	})
	gauge("capture_start_time_seconds", "When the capture began, in seconds since the Unix epoch.", nil, func(_ captureReading, send metrics.SendValue) {
		send(float64(started.UnixNano()) / 1e9)
	})
	gauge("capture_info", "How packets come from the kernel; the value is always 1.", []string{"transport"}, func(_ captureReading, send metrics.SendValue) {
		send(1, transport.String())
	})

	output := func(name, help string, of func(*outputs.Summary) uint64) {
		m.Count("xdpcap_output_"+name+"_total", help, []string{"output"}, func(c captureReading, send metrics.SendValue) {
			for i := range c.outputs {
				send(float64(of(&c.outputs[i])), c.outputs[i].Output)
			}
		})
	}
	output("captured_packets", "Packets that each of several outputs has taken.", func(s *outputs.Summary) uint64 { return s.Captured })
	output("captured_bytes", "Bytes of the packets that each of several outputs has taken, after -s.", func(s *outputs.Summary) uint64 { return s.Bytes })
	output("not_taken_packets", "Packets that each of several outputs did not take.", func(s *outputs.Summary) uint64 { return s.NotTaken })

	clients := func(of func(*stream.ServerAccount) uint64) func(captureReading, metrics.SendValue) {
		return func(c captureReading, send metrics.SendValue) {
			if c.clients != nil { // with --serve
				send(float64(of(c.clients)))
			}
		}
	}
	gauge("connected_clients", "Clients that are connected to --serve.", nil, clients(func(a *stream.ServerAccount) uint64 { return uint64(a.Connected) }))
	m.Count("xdpcap_clients_total", "Connections that --serve has accepted.", nil, clients(func(a *stream.ServerAccount) uint64 { return a.Clients }))
	m.Count("xdpcap_clients_refused_total", "Connections that --serve refused, because it had no room for them, they were of other users, or their TLS handshake failed.", nil, clients(func(a *stream.ServerAccount) uint64 { return a.Refused }))
	m.Count("xdpcap_clients_lost_packets_total", "Packets that all clients of --serve together lost, because they were too slow.", nil, clients(func(a *stream.ServerAccount) uint64 { return a.Lost }))
	return m
}

// programNumber formats the id of a traced program; "" if none is traced.
func programNumber(p capture.Program) string {
	if p.ID == 0 {
		return ""
	}
	return fmt.Sprint(p.ID)
}

// accountOnly is the output of --account, which discards every packet.
type accountOnly struct{}

func (accountOnly) Begin(capture.Description) error                      { return nil }
func (accountOnly) Write([]capture.Packet) error                         { return nil }
func (accountOnly) Forget(int) bool                                      { return true }
func (accountOnly) Flush() error                                         { return nil }
func (accountOnly) End(final capture.Accounts) (capture.Accounts, error) { return final, nil }
