package dissect

import (
	"github.com/gopacket/gopacket/layers"
)

func (d *Dissector) tcp(t *layers.TCP) bool {
	length := d.length - int(t.DataOffset)*4
	if t.Contents == nil || length < 0 {
		return false
	}
	d.ports(uint16(t.SrcPort), uint16(t.DstPort))
	if d.o.Quiet {
		d.addf("tcp %d", length)
		return true
	}
	d.add("Flags [")
	before := len(d.line)
	for i, set := range []bool{t.FIN, t.SYN, t.RST, t.PSH, t.ACK, t.URG, t.ECE, t.CWR} {
		if set {
			d.line = append(d.line, "FSRP.UEW"[i])
		}
	}
	if len(d.line) == before {
		d.add("none")
	}
	d.add("]")
	if length > 0 {
		d.addf(", seq %d:%d", t.Seq, t.Seq+uint32(length))
	} else if t.SYN || t.FIN || t.RST {
		d.addf(", seq %d", t.Seq)
	}
	if t.ACK {
		d.addf(", ack %d", t.Ack)
	}
	d.addf(", win %d", t.Window)
	if t.URG {
		d.addf(", urg %d", t.Urgent)
	}
	if t.DataOffset > 5 && !d.tcpOptions(t) {
		return false
	}
	d.addf(", length %d", length)
	return true
}

// tcpOptions are the formats of options by kind and length.
var tcpOptions = map[[2]uint8]string{
	{0, 1}: "eol", {1, 1}: "nop", {2, 4}: "mss %d", {3, 3}: "wscale %d", {4, 2}: "sackOK", {8, 10}: "TS val %d ecr %d",
	{5, 10}: "sack 1 {%d:%d}", {5, 18}: "sack 2 {%d:%d}{%d:%d}", {5, 26}: "sack 3 {%d:%d}{%d:%d}{%d:%d}",
	{5, 34}: "sack 4 {%d:%d}{%d:%d}{%d:%d}{%d:%d}",
}

// tcpOptions appends the options. It is false where they are cut or wrong.
func (d *Dissector) tcpOptions(t *layers.TCP) bool {
	d.add(", options [")
	size := 20
	for i, o := range t.Options {
		if i > 0 {
			d.add(",")
		}
		size += int(o.OptionLength)
		if o.OptionType == layers.TCPOptionKindEndList {
			size += len(t.Padding)
		}
		format, ok := tcpOptions[[2]uint8{uint8(o.OptionType), o.OptionLength}]
		if !ok {
			d.addf("unknown-%d 0x%x", o.OptionType, o.OptionData)
			continue
		}
		var values []any
		for v := o.OptionData; len(v) > 0; {
			var value uint32
			for n := min(len(v), 4); n > 0; n-- {
				value, v = value<<8|uint32(v[0]), v[1:]
			}
			values = append(values, value)
		}
		d.addf(format, values...)
	}
	if size < int(t.DataOffset)*4 { // gopacket stopped at an option that it cannot read
		return false
	}
	d.add("]")
	return true
}

func (d *Dissector) udp(u *layers.UDP) bool {
	if u.Contents == nil || u.Length < 8 {
		return false
	}
	d.ports(uint16(u.SrcPort), uint16(u.DstPort))
	d.addf("UDP, length %d", min(d.length, int(u.Length))-8)
	return true
}
