package cli

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

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/finished"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/sandbox"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/localsocket"
	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/version"
)

// outputOptions are the flags of capture and read for the places that packets go to.
type outputOptions struct {
	writes   frame.NameList
	targets  []target // the outputs that -w names
	write    string   // the -w to which the flags about files apply: a file with a name, else "-"
	format   string
	print    bool
	count    uint64
	counted  string // the flag that count is of; "" = -c
	duration time.Duration
	unbuffer bool
	unnamed  bool // omit the command line from files

	rotate  rotationOptions
	series  *capture.Rotation // nil = one file
	sflow   sflowOptions
	live    liveOptions
	sandbox sandbox.Options
}

func (o *outputOptions) fileFlags(f *pflag.FlagSet) {
	f.VarP(&o.writes, "write", "w", "write packets to this `file` instead of printing them; - is standard output, sflow://HOST a collector of sFlow samples, tcp://HOST:PORT a program that reads pcapng; repeat -w for several")
	f.StringVar(&o.format, "format", "", "`format` of the file: pcapng, pcap, or json, a line for each packet (default: by the file's suffix, else pcapng; .gz or .zst after that compresses)")
	f.BoolVar(&o.print, "print", false, "also print packets while writing a file")
}

// laterFile is a file beside which further ones are created once packets come: those of a series.
// "" = every file is open by then.
func (o *outputOptions) laterFile() string {
	if o.series == nil {
		return ""
	}
	return o.rotate.lasting(o.write)
}

// madeFiles are the files that are created at the start, or beside which others are created.
func (o *outputOptions) madeFiles() (files []string) {
	for _, name := range o.files() {
		files = append(files, o.rotate.lasting(name))
	}
	if path, ok := localsocket.Path(o.live.serve); ok {
		files = append(files, path+"~") // in the socket's directory, where an earlier socket may be
	}
	return files
}

// commandLine is the command line that files record; "" with --no-command-line.
func (o *outputOptions) commandLine() string {
	if o.unnamed {
		return ""
	}
	return escape.CommandLine(os.Args)
}

// writer returns the options for writing a file.
func (o *outputOptions) writer(t *target) capture.WriterOptions {
	return capture.WriterOptions{
		Format:      t.format,
		Compression: t.compression,
		Application: "xdpcap " + version.String(),
		CommandLine: o.commandLine(),
		Immediate:   o.unbuffer,
	}
}

// destinations are the outputs for packets, and what is done with finished files.
type destinations struct {
	flags  *outputOptions
	writer func(*target) capture.WriterOptions
	notice func(error) // does not wait

	opened   []destination
	outputs  []namedOutput   // including the recorder, in the order of -w
	finished *finished.Files // nil if nothing is done with finished files
}

// openTarget opens what a -w names.
func (d *destinations) openTarget(ctx context.Context, t *target) (destination, error) {
	if t.url == nil {
		return d.openFile(ctx, t)
	}
	opened, err := schemes[t.url.Scheme](t.url, d.flags, d.notice)
	if err != nil {
		return nil, fmt.Errorf("-w %s: %w", t.name, err)
	}
	return opened, nil
}

// openServer listens where --serve says.
func (d *destinations) openServer() error {
	live := &d.flags.live
	if live.serve == "" {
		return nil
	}
	server, name, err := openServer(live, d.writer(&target{}))
	if err != nil {
		return err
	}
	d.add(name, server)
	if server.open {
		d.notice(fmt.Errorf("--serve %s: whoever reaches this address gets every packet: add --tls-cert, --tls-key and --tls-ca, so that only clients with a certificate do", live.serve))
	}
	return nil
}

// add adds a destination that is open.
func (d *destinations) add(name string, opened destination) {
	d.opened = append(d.opened, opened)
	d.outputs = append(d.outputs, namedOutput{opened, name})
	all := slices.Clone(d.opened)
	written.destinations.Store(&all)
}

// givers are what is given to whom the process becomes.
func (d *destinations) givers() (all []sandbox.Giver) {
	for _, opened := range d.opened {
		if g, ok := opened.(sandbox.Giver); ok {
			all = append(all, g)
		}
	}
	return all
}

// close releases what End has not released, or what was never begun.
func (d *destinations) close() error {
	var errs []error
	for _, opened := range d.opened {
		errs = append(errs, opened.Close())
	}
	return errors.Join(errs...)
}

// watchFiles prepares what -z and --print-files do with finished files. The output of the commands
// goes to a file; nil = nowhere.
func (d *destinations) watchFiles(output *os.File) (err error) {
	series, rotate := d.flags.series, &d.flags.rotate
	if series == nil {
		return nil
	}
	err = d.flags.sandbox.As(func() (err error) {
		d.finished, err = finished.New(rotate.command, output, d.notice)
		return err
	})
	if err != nil {
		return err
	}
	series.Finished = func(path string) {
		if rotate.printFiles {
			d.finished.Print(path)
		}
		if rotate.command != "" {
			d.finished.Run(path)
		}
	}
	return nil
}

// nameFiles are the directories of the files with name servers and hosts. Most systems replace
// these files as a whole, so only the directories lead to them later.
var nameFiles = []string{"/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"}

// outputNeeds permits what the outputs do later: looking at their files, connecting again to their
// receivers, and starting the program of -z.
func (c *outputOptions) outputNeeds(box *privilege.Sandbox) {
	box.Programs = c.rotate.command != ""
	box.Work = append(box.Work, privilege.Files)
	if c.live.serve != "" && !slices.Contains(box.Work, privilege.Accepting) {
		box.Work = append(box.Work, privilege.Accepting)
	}
	if c.live.tls.asked() {
		x509.SystemCertPool() // Go reads it when it first needs it
	}
	if path, ok := localsocket.Path(c.live.serve); ok {
		box.Removable = []string{filepath.Dir(path)} // to remove the socket at the end
	}
	for i := range c.targets {
		u := c.targets[i].url
		if u == nil {
			continue
		}
		if !slices.Contains(box.Work, privilege.Sending) {
			box.Work = append(box.Work, privilege.Sending)
		}
		if port, err := net.LookupPort("tcp", u.Port()); u.Scheme == "tcp" && err == nil {
			box.Connect = append(box.Connect, uint16(port))
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			box.Readable = slices.Concat(box.Readable, nameFiles)
			box.Connect = append(box.Connect, 53) // for long answers of name servers
		}
	}
}
