package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/matcher"
)

// filterOptions are the flags and arguments that choose packets by their contents.
type filterOptions struct {
	words       []string // the arguments
	file        string   // -F
	programFile string   // --filter-file
	vlanAware   bool

	dump int // number of -d
	ebpf bool

	text    string               // the expression; "" = every packet
	program []bpf.RawInstruction // of --filter-file
}

func (o *filterOptions) flags(f *pflag.FlagSet) {
	frame.NameVar(f, &o.file, "expression-file", "F", "read the filter expression from this `file`, with # comments; - is standard input")
	frame.NameVar(f, &o.programFile, "filter-file", "", "filter with the classic BPF program in this `file`, as tcpdump -ddd prints it")
	f.BoolVar(&o.vlanAware, "vlan-aware", false, "let the filter also match after one or two VLAN tags")
	f.CountVarP(&o.dump, "dump-code", "d", "print the compiled filter and end; -dd as C, -ddd as numbers")
	f.BoolVar(&o.ebpf, "ebpf", false, "with -d, print the eBPF that the filter becomes")
}

// read finds the expression or program in arguments and files.
func (o *filterOptions) read() error {
	var from []string
	if len(o.words) > 0 {
		from = append(from, "on the command line")
	}
	if o.file != "" {
		from = append(from, "in -F "+o.file)
	}
	if o.programFile != "" {
		from = append(from, "in --filter-file "+o.programFile)
	}
	switch {
	case len(from) > 1:
		return fmt.Errorf("a filter is given %s: give only one", strings.Join(from, " and "))
	case o.vlanAware && o.programFile != "":
		return errors.New("--vlan-aware is for expressions: the program of --filter-file decides itself where it looks")
	case o.ebpf && o.dump == 0:
		return errors.New("--ebpf goes with -d")
	case o.file != "":
		text, err := frame.ReadInput(o.file)
		if err != nil {
			return fmt.Errorf("-F: read the filter expression: %w", err)
		}
		o.text = strings.TrimSpace(withoutComments(string(text)))
	case o.programFile != "":
		text, err := frame.ReadInput(o.programFile)
		if err != nil {
			return fmt.Errorf("--filter-file: read the filter program: %w", err)
		}
		if o.program, err = filter.ParseRaw(string(text)); err != nil {
			return fmt.Errorf("--filter-file %s: %w", o.programFile, err)
		}
	default:
		o.text = strings.Join(o.words, " ")
	}
	return nil
}

// withoutComments removes from each line what comes after a #, as tcpdump does.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		expression, _, comment := strings.Cut(line, "#")
		b.WriteString(expression)
		if comment {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// print does what -d asks for, for received packets or, if outbound, for sent ones. It needs
// neither privileges nor an interface.
func (o *filterOptions) print(out io.Writer, snapLen int64, outbound bool) error {
	prog := o.program
	if prog == nil {
		var err error
		prog, err = filter.CompileRaw(o.text, filter.Options{SnapLen: int(snapLen), VLANAware: o.vlanAware, Outbound: outbound})
		if err != nil {
			return fmt.Errorf("filter expression: %w", err)
		}
	}
	switch {
	case o.ebpf:
		body, err := filterebpf.Translate(prog)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v", body)
	case o.dump == 1:
		fmt.Fprint(out, filter.Listing(prog))
	case o.dump == 2:
		fmt.Fprint(out, filter.CArray(prog))
	default:
		fmt.Fprint(out, filter.Decimal(prog))
	}
	return nil
}

// matchers are made from the flags; nil if there is no filter. A packet whose direction is unknown
// counts as received.
func (o *filterOptions) matchers() (*matcher.All, error) {
	switch {
	case o.program != nil:
		return matcher.OfProgram(o.program), nil
	case o.text == "":
		return nil, nil
	}
	return matcher.ForAll(o.text, filter.Options{VLANAware: o.vlanAware})
}
