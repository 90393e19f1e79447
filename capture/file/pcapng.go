package file

import "github.com/xdpcap/xdpcap/capture"

var asPCAPNG = formatKind{
	name:       "pcapng",
	suffixes:   []string{".pcapng"},
	hasWeights: true,
	open:       openPCAPNG,
}

// openPCAPNG returns an encoder for a session, or a copyEncoder if the packets are from capture
// files.
func openPCAPNG(d *capture.Description, o *Options) encoder {
	if copier := NewCopier(d, o.Application); copier != nil {
		return &copyEncoder{copier}
	}
	return newPCAPNGEncoder(d, o)
}

// pcapngEncoder puts the blocks of an Encoder into chunks.
type pcapngEncoder struct{ *capture.Encoder }

func newPCAPNGEncoder(d *capture.Description, o *Options) pcapngEncoder {
	return pcapngEncoder{capture.NewEncoder(d, capture.EncoderOptions{Application: o.Application, CommandLine: o.CommandLine, Comments: o.Comments})}
}

func (e pcapngEncoder) header(b []byte) []byte { return e.Header(b) }

func (e pcapngEncoder) finish(c *chunk) { e.describeAdded(c) }

// describeAdded describes the sources that were added since the last call.
func (e pcapngEncoder) describeAdded(c *chunk) {
	for _, source := range e.AddSources() {
		c.blocks = e.Describe(c.blocks, e.Source(source))
		c.noteInterface(source)
	}
}

func (e pcapngEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	e.describeAdded(c)
	for ; n < len(packets) && c.hasRoom(len(packets[n].Data)+capture.MaxOverhead); n++ {
		p := &packets[n]
		c.blocks = e.Append(c.blocks, p)
		c.notePacket(p)
	}
	return n, nil
}

func (e pcapngEncoder) trailer(b []byte, s *statistics) []byte {
	for i, a := range s.Accounts {
		if number, ok := s.interfaceOf(i); ok && (s.has == nil || s.has(i)) {
			b = e.AppendStatistics(b, i, number, a, s.start, s.comment())
		}
	}
	return b
}
