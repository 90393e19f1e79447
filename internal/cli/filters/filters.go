// Package filters has the flags about filters, and applies filters to packets outside of the
// kernel.
package filters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Options are the flags and arguments that choose packets by their contents, and the filter that
// Read reads.
type Options struct {
	Words       []string // the arguments
	File        string   // -F
	ProgramFile string   // --filter-file
	VLANAware   bool     // --vlan-aware
	Fragments   bool     // --fragments
	SetFiles    []string // --filter-set, NAME=FILE
	vxlanPort   uint32   // --vxlan-port; 0 = none

	Netmask    net.IPMask // for "ip broadcast" in files; nil = not known
	OneNetmask bool       // Netmask has precedence over those in files

	Dump        frame.Count // how often -d is given
	ebpf        bool        // --ebpf
	unoptimised bool        // --no-optimize

	// By Read:
	Text    string          // the expression; "" = every packet, or there is a Program
	Program *filter.Program // of ProgramFile; nil = none
	Sets    Sets            // of SetFiles
}

// Flags are the flags that the capture and other commands have.
func (o *Options) Flags() []frame.Flag {
	return []frame.Flag{
		{Name: "expression-file", Letter: "F", Value: (*frame.Name)(&o.File), Rivals: []string{"filter-file", frame.FilterWords},
			Help: "read the filter expression from this `file`, with # comments; - is standard input"},
		{Name: "filter-file", Value: (*frame.Name)(&o.ProgramFile), Rivals: []string{"expression-file", frame.FilterWords},
			Help: "filter with the classic BPF program in this `file`, as tcpdump -ddd prints it"},
		o.SetFlag(),
		{Name: "vlan-aware", Value: &o.VLANAware, Help: "let the filter also match after one or two VLAN tags",
			Dialog: frame.Dialog{Place: 6, Label: "Filter also after VLAN tags"}},
		o.VXLANPortFlag(),
		{Name: "dump-code", Letter: "d", Value: &o.Dump, Help: "print the compiled filter and end; -dd as C, -ddd as numbers"},
		{Name: "ebpf", Value: &o.ebpf, Help: "with -d, print the eBPF that the filter becomes"},
		{Name: "no-optimize", Letter: "O", Value: &o.unoptimised,
			Help: "with -d, print the filter before the optimiser made it shorter; it chooses the same packets"},
	}
}

// VXLANPortFlag is the flag --vxlan-port.
func (o *Options) VXLANPortFlag() frame.Flag {
	return frame.Flag{Name: "vxlan-port", Value: &o.vxlanPort,
		Help: "let vxlan and inner in the filter also expect VXLAN at this UDP `port`"}
}

// VXLANPort is the port of --vxlan-port; 0 = none.
func (o *Options) VXLANPort() uint16 { return uint16(o.vxlanPort) }

// Read reads the expression or program from arguments or a file, and the sets. It checks the flags.
// The end of the context ends the wait for a file that is a pipe.
func (o *Options) Read(ctx context.Context) (err error) {
	if o.Sets, err = openSets(ctx, o.SetFiles); err != nil {
		return err
	}
	var from []string
	if len(o.Words) > 0 {
		from = append(from, "on the command line")
	}
	if o.File != "" {
		from = append(from, "in -F "+o.File)
	}
	if o.ProgramFile != "" {
		from = append(from, "in --filter-file "+o.ProgramFile)
	}
	switch {
	case len(from) > 1:
		return fmt.Errorf("a filter is given %s: give only one", strings.Join(from, " and "))
	case o.VLANAware && o.ProgramFile != "":
		return errors.New("--vlan-aware is for expressions: the program of --filter-file decides itself where it looks")
	case o.vxlanPort > math.MaxUint16:
		return fmt.Errorf("--vxlan-port %d is no UDP port: they end at 65535", o.vxlanPort)
	case o.vxlanPort != 0 && o.ProgramFile != "":
		return errors.New("--vxlan-port is for expressions: the program of --filter-file decides itself where it looks")
	case o.ebpf && o.Dump == 0:
		return errors.New("--ebpf goes with -d")
	case o.File != "":
		text, err := o.readFile(ctx)
		if err != nil {
			return err
		}
		o.Text = withoutComments(text)
	case o.ProgramFile != "":
		text, err := frame.ReadInput(ctx, o.ProgramFile)
		if err != nil {
			return fmt.Errorf("--filter-file: read the filter program: %w", err)
		}
		instructions, err := filter.ParseRaw(string(text))
		if err != nil {
			return fmt.Errorf("--filter-file %s: %w", o.ProgramFile, err)
		}
		o.Program = &filter.Program{Instructions: instructions}
	default:
		o.Text = strings.Join(o.Words, " ")
	}
	return nil
}

// CanReread reports whether the file of -F can be read again: it is a regular file.
func (o *Options) CanReread() bool {
	info, err := os.Stat(o.File) // an error for -, which is standard input
	return err == nil && info.Mode().IsRegular()
}

// Reread returns the expression that is in the file of -F now. An empty file is an error, because
// an editor may be writing it: a file for every packet must have a comment.
func (o *Options) Reread(ctx context.Context) (expression string, err error) {
	text, err := o.readFile(ctx)
	if err == nil && strings.TrimSpace(text) == "" {
		err = fmt.Errorf("-F: %s is empty: write a filter, or for every packet a comment, such as # all", o.File)
	}
	return withoutComments(text), err
}

func (o *Options) readFile(ctx context.Context) (string, error) {
	text, err := frame.ReadInput(ctx, o.File)
	if err != nil {
		err = fmt.Errorf("-F: read the filter expression: %w", err)
	}
	return string(text), err
}

// Warn prints a warning about a filter with a test after "vlan" or the like that was probably meant
// for the outer packet.
func (o *Options) Warn(out io.Writer) {
	if word := filter.Moved(o.Text); word != "" {
		frame.Say(out, "filter: all tests after %q look behind that header, also those after its \"or\": write what stands outside of it first, as in ip or (%s and ip)", word, word)
	}
}

// withoutComments removes comments, which begin with #, as tcpdump does, and joins the lines.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		expression, _, comment := strings.Cut(line, "#")
		b.WriteString(expression)
		if comment {
			b.WriteByte('\n')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Compiling returns the options for compiling that follow from the flags. Those that depend on the
// packets or the interface are missing.
func (o *Options) Compiling() filter.Options {
	return filter.Options{Sets: o.Sets.Known(), VLANAware: o.VLANAware, Fragments: o.Fragments, VXLANPort: o.VXLANPort()}
}

// Print prints the compiled filter for -d: that for received packets or, if outbound, for sent
// ones. It needs neither privileges nor an interface.
func (o *Options) Print(out io.Writer, snapLen int64, outbound bool) error {
	prog := o.Program
	if prog == nil {
		var err error
		of := o.Compiling()
		of.SnapLen, of.Netmask, of.Outbound, of.Unoptimised = int(snapLen), o.Netmask, outbound, o.unoptimised
		prog, err = filter.Compile(o.Text, of)
		if err != nil {
			return fmt.Errorf("filter expression: %w", err)
		}
	}
	if o.Dump > 1 && len(prog.Sets) > 0 && !o.ebpf {
		return fmt.Errorf("-dd and -ddd print classic BPF for other programs, which has no sets: -d prints how the filter looks up in @%s", prog.Sets[0].Name)
	}
	switch {
	case o.ebpf:
		body, err := filterebpf.Translate(prog)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v", body)
	case o.Dump == 1:
		fmt.Fprint(out, prog.Listing())
	case o.Dump == 2:
		fmt.Fprint(out, filter.CArray(prog.Instructions))
	default:
		fmt.Fprint(out, filter.Decimal(prog.Instructions))
	}
	return nil
}

// Matchers returns the filter for packets in user space; nil if there is no filter.
func (o *Options) Matchers() (*Matchers, error) {
	switch {
	case o.Program != nil:
		return programMatchers(o.Program), nil
	case o.Text == "":
		return nil, nil
	}
	if err := o.Sets.OnlyFiles(); err != nil {
		return nil, err
	}
	of := o.Compiling()
	of.Netmask = o.Netmask
	return newMatchers(o.Text, of, o.OneNetmask)
}

// PrintFor is Print for a value of -Q. For inout the filter must be the same in both directions.
func (o *Options) PrintFor(out io.Writer, snapLen int64, directions string) error {
	d, err := capture.ParseDirection(strings.ToLower(directions))
	if err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if d != capture.InOut {
		return o.Print(out, snapLen, d == capture.Out)
	}
	var in, sent strings.Builder
	errIn := o.Print(&in, snapLen, false)
	errSent := o.Print(&sent, snapLen, true)
	switch {
	case errIn != nil && errSent != nil:
		return errIn
	case in.String() != sent.String():
		return errors.New("-d: received and sent packets have different filters here: say -Q in or -Q out")
	}
	_, err = io.WriteString(out, in.String())
	return err
}

// String is the expression, or the name of the file with the program; "" = every packet.
func (o *Options) String() string { return cmp.Or(o.Text, o.ProgramFile) }

// Compile returns the filters for what an interface receives and sends, as a capture in these
// directions compiles them; nil = every packet.
func (o *Options) Compile(iface string, d capture.Direction) (received, sent *filter.Program, err error) {
	if o.Program != nil || o.Text == "" {
		return o.Program, o.Program, nil
	}
	ifi, err := xdp.InterfaceByName(iface)
	if err != nil {
		return nil, nil, err
	}
	of := o.Compiling()
	of.Outbound = d == capture.Out
	if of.Netmask, err = ifi.Netmask(); err != nil {
		return nil, nil, err
	}
	if d == capture.InOut {
		received, sent, err = filter.CompileBoth(o.Text, of)
	} else {
		received, err = filter.Compile(o.Text, of)
		sent = received
	}
	if err != nil {
		return nil, nil, fmt.Errorf("filter expression: %w", err)
	}
	return received, sent, nil
}
