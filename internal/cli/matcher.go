package cli

import (
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
)

// A matcher decides about packets outside of the kernel, by one program for those that were
// received and another for those that were sent.
type matcher struct{ received, sent []bpf.RawInstruction }

func newMatcher(text string, o filter.Options) (m *matcher, err error) {
	m = new(matcher)
	m.received, m.sent, err = filter.CompileBoth(text, o)
	return m, err
}

// matcher is that of the flags, nil where they have no filter. A packet of which no direction is
// known counts as received.
func (o *filterOptions) matcher() (*matcher, error) {
	switch {
	case o.program != nil:
		return &matcher{o.program, o.program}, nil
	case o.text == "":
		return nil, nil
	}
	return newMatcher(o.text, filter.Options{VLANAware: o.vlanAware})
}

// takes tells whether the filter matches a packet that had wireLen bytes.
func (m *matcher) takes(data []byte, wireLen uint32, outbound bool) bool {
	program := m.received
	if outbound {
		program = m.sent
	}
	return filter.Run(program, data, wireLen) != 0
}
