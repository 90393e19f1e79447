// Package outputs has the outputs of read and the capture: the flags about files, series of files,
// streams and lines on standard output, the values of -w, and the summary of each output.
package outputs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// Options are the flags of capture and read about outputs.
type Options struct {
	Process *frame.Process // set by the command that has the flags

	Writes   frame.NameList
	Targets  []Target // Writes, parsed
	Write    string   // the -w to which the flags about files apply: a file with a name, else "-"
	Format   string
	Print    bool
	Count    uint64        // packets after which the run ends; 0 = no limit
	Counted  string        // the flag that Count comes from; "" = -c
	Duration time.Duration // after which the run ends; 0 = no limit
	Unbuffer bool
	Unnamed  bool // omit the command line from files

	Rotate  rotationOptions
	Series  *file.Rotation // nil = one file
	SFlow   sflowOptions
	Live    liveOptions
	Sandbox frame.Sandbox

	anonymize anonymizeOptions
}

// FileFlags are the flags about files.
func (o *Options) FileFlags() []frame.Flag {
	return []frame.Flag{
		{Name: "write", Letter: "w", Value: &o.Writes, Settings: frame.ExposesData | frame.NotForWireshark,
			Help: "write packets to this `file` instead of printing them; - is standard output, sflow://HOST a collector of sFlow samples, tcp://HOST:PORT a program that reads pcapng, or with --format pcap the classic format; repeat -w for several"},
		{Name: "format", Value: &o.Format, Words: formatNames(), Settings: frame.NotForWireshark, Help: formatUsage()},
		{Name: "print", Value: &o.Print, Settings: frame.NotForWireshark, Help: "also print packets while writing a file"},
		{Name: "anonymize", Value: (*frame.Name)(&o.anonymize.file),
			Help: "replace the addresses in all packets that are written, printed or sent, by the 32 random bytes in this `file` (to make one: (umask 77; head -c 32 /dev/urandom > key)), and cut what follows the headers: for files that may be shared"},
	}
}

// LaterFile is a file in whose directory later files of a series are created while packets come; ""
// = all files are open before that.
func (o *Options) LaterFile() string {
	if o.Series == nil {
		return ""
	}
	return o.Rotate.Lasting(o.Write)
}

// MadeFiles are the files that are created at the start, or whose directories get further files.
func (o *Options) MadeFiles() (files []string) {
	for _, name := range o.Files() {
		files = append(files, o.Rotate.Lasting(name))
	}
	if path, ok := frame.SocketPath(o.Live.Serve); ok {
		files = append(files, path+"~") // in the socket's directory, where an earlier socket may be
	}
	return files
}

// commandLine is the command line that files record; "" with --no-command-line.
func (o *Options) commandLine() string {
	if o.Unnamed {
		return ""
	}
	return message.CommandLine(os.Args)
}

// Writer returns the options for writing a file.
func (o *Options) Writer(t *Target) file.Options {
	return file.Options{
		Format:      t.Format,
		Compression: t.Compression,
		Application: "xdpcap " + frame.Version(),
		CommandLine: o.commandLine(),
		Immediate:   o.Unbuffer,
	}
}

// Destinations are the open outputs for packets, and the jobs for finished files.
type Destinations struct {
	Flags  *Options
	Writer func(*Target) file.Options
	Notice func(error) // must not wait

	Opened   []destination
	Outputs  []Named   // including the recorder, in the order of -w
	Finished *Finished // nil without a series of files
	taken    progress
}

// Open opens the outputs of the flags. It calls special first for each target, which returns true
// if it has opened or omitted the target. The commands of -z write to output; nil = their output is
// discarded.
func (d *Destinations) Open(ctx context.Context, output *os.File, special func(*Target) (bool, error)) error {
	if err := d.prepareFinished(output); err != nil {
		return err
	}
	if err := d.Flags.Adopt(); err != nil {
		d.Notice(err)
	}
	for i := range d.Flags.Targets {
		t := &d.Flags.Targets[i]
		done, err := special(t)
		if !done && err == nil {
			var opened destination
			if opened, err = d.openTarget(ctx, t); err == nil {
				d.Add(t.Name, opened)
			}
		}
		if err != nil {
			return err
		}
	}
	return d.listen()
}

// openTarget opens the output of a -w.
func (d *Destinations) openTarget(ctx context.Context, t *Target) (destination, error) {
	if t.URL == nil {
		return d.openFile(ctx, t)
	}
	opened, err := schemes[t.URL.Scheme](t, d.Flags, d.Notice)
	if err != nil {
		return nil, fmt.Errorf("-w %s: %w", t.Name, err)
	}
	return opened, nil
}

// listen opens the server of --serve.
func (d *Destinations) listen() error {
	live := &d.Flags.Live
	if live.Serve == "" {
		return nil
	}
	server, name, err := d.openServer(d.Flags.Process.UntilSignal(), d.Writer(&Target{Format: live.Format}))
	if err != nil {
		return err
	}
	d.Add(name, server)
	if server.notice != nil {
		d.Notice(server.notice)
	}
	return nil
}

// Add adds a destination that is open.
func (d *Destinations) Add(name string, opened destination) {
	d.Opened = append(d.Opened, opened)
	d.Outputs = append(d.Outputs, Named{opened, name})
	all := slices.Clone(d.Opened)
	d.taken.destinations.Store(&all)
	d.Flags.Process.CountTaken(d.taken.bytes)
}

// Givers are the outputs whose files are given to the user that the process becomes.
func (d *Destinations) Givers() (all []frame.Giver) {
	for _, opened := range d.Opened {
		if g, ok := opened.(frame.Giver); ok {
			all = append(all, g)
		}
	}
	return all
}

// Close closes all outputs, also those without Begin or End.
func (d *Destinations) Close() error {
	var errs []error
	for _, opened := range d.Opened {
		errs = append(errs, opened.Close())
	}
	return errors.Join(errs...)
}

// prepareFinished prepares the jobs of -z and --print-files for finished files.
func (d *Destinations) prepareFinished(output *os.File) (err error) {
	series, rotate := d.Flags.Series, &d.Flags.Rotate
	if series == nil {
		return nil
	}
	err = d.Flags.Sandbox.As(func() (err error) {
		d.Finished, err = NewFinished(d.Flags.Process, rotate.command, output, d.Notice)
		return err
	})
	if err != nil {
		return err
	}
	series.Finished = func(path string) {
		if rotate.PrintFiles {
			d.Finished.Print(path)
		}
		if rotate.command != "" {
			d.Finished.Run(path)
		}
	}
	return nil
}

// nameFiles are the directories of the files with name servers and hosts. The sandbox gets the
// directories, because most systems replace these files by new ones.
var nameFiles = []string{"/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"}

// OutputNeeds permits the later work of the outputs in the sandbox: checks of their files, new
// connections to their receivers, and the command of -z.
func (o *Options) OutputNeeds(box *privilege.Sandbox) {
	box.Programs = o.Rotate.command != ""
	box.Work = append(box.Work, privilege.Files)
	if o.Live.Serve != "" && !slices.Contains(box.Work, privilege.Accepting) {
		box.Work = append(box.Work, privilege.Accepting)
	}
	if o.Live.TLS.Asked() {
		x509.SystemCertPool() // reads and caches the files
	}
	if path, ok := frame.SocketPath(o.Live.Serve); ok {
		box.Removable = []string{filepath.Dir(path)} // to remove the socket at the end
	}
	for i := range o.Targets {
		u := o.Targets[i].URL
		if u == nil {
			continue
		}
		if u.Scheme == SFlowScheme {
			box.Work = append(box.Work, privilege.Datagrams)
		} else if port, err := net.LookupPort("tcp", u.Port()); err == nil {
			box.Work, box.Connect = append(box.Work, privilege.Streams), append(box.Connect, uint16(port))
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			box.Work = append(box.Work, privilege.Datagrams, privilege.Streams) // by TCP if an answer is long
			box.Readable, box.Connect = slices.Concat(box.Readable, nameFiles), append(box.Connect, 53)
		}
	}
}
