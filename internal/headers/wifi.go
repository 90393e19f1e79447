package headers

import "encoding/binary"

// A WiFiFrame is an IEEE 802.11 frame, as far as its bytes go.
type WiFiFrame struct {
	Kind, Subtype       uint8 // of frame control; kind 0 is management, 1 control, 2 data
	Protected           bool  // the data are encrypted
	Destination, Source []byte
	Data                []byte // the bytes after the header of a data frame that has data
	Size                int    // bytes before Data or, without data, of the header before the frame
}

// Kinds of frames.
const (
	WiFiManagement = iota
	WiFiControl
	WiFiData
)

// Frame reads the header of a packet of WiFi or Radiotap. It returns false if the packet ends
// before its first address.
func (t Link) Frame(packet []byte) (f WiFiFrame, ok bool) {
	b, isPadded := packet, false
	if t == Radiotap {
		if len(b) < 4 {
			return f, false
		}
		f.Size = int(binary.LittleEndian.Uint16(b[2:]))
		if len(b) < f.Size {
			return f, false
		}
		isPadded = radiotapFlags(b[:f.Size])&0x20 != 0
		b = b[f.Size:]
	}
	if len(b) < 10 {
		return f, false
	}
	f.Kind, f.Subtype, f.Protected = b[0]>>2&3, b[0]>>4, b[1]&0x40 != 0
	address := func(n int) []byte { // 1 to 4
		if at := 4 + 6*(n-1) + n/4*2; len(b) >= at+6 { // the sequence number is before the fourth
			return b[at : at+6]
		}
		return nil
	}
	f.Destination = address(1)
	if f.Kind == WiFiControl {
		f.Source = address(2)
		if f.Subtype == 0xc || f.Subtype == 0xd { // CTS and ACK have one address
			f.Source = nil
		}
		return f, true
	}
	toDS, fromDS := b[1]&1 != 0, b[1]&2 != 0
	header := 24
	f.Source = address(2)
	if f.Kind == WiFiData {
		switch {
		case toDS && fromDS:
			f.Destination, f.Source, header = address(3), address(4), 30
		case toDS:
			f.Destination = address(3)
		case fromDS:
			f.Source = address(3)
		}
		isAggregate := false  // several packets, each with its own headers
		if f.Subtype&8 != 0 { // with quality of service
			isAggregate = len(b) > header && b[header]&0x80 != 0
			header += 2
			if b[1]&0x80 != 0 { // and with a field of 802.11n
				header += 4
			}
		}
		if isPadded {
			header += -header & 3
		}
		if f.Subtype&4 == 0 && !isAggregate && len(b) >= header { // others have no data
			f.Data, f.Size = b[header:], f.Size+header
		}
	}
	return f, true
}

// wifiHeader is Header for WiFi and Radiotap: the EtherType is in the SNAP header of a data frame.
func (t Link) wifiHeader(packet []byte) (etherType uint16, size int, ok bool) {
	f, ok := t.Frame(packet)
	const snap = "\xaa\xaa\x03\x00\x00\x00"
	if !ok || f.Protected || len(f.Data) < len(snap)+2 || string(f.Data[:len(snap)]) != snap {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(f.Data[len(snap):]), f.Size + len(snap) + 2, true
}

// radiotapFlags is the field of flags in radiotap's header, or 0.
func radiotapFlags(b []byte) uint8 {
	if len(b) < 8 {
		return 0
	}
	const stamp, flags, more = 1, 2, 1 << 31
	present, at := binary.LittleEndian.Uint32(b[4:]), 8
	for word := present; word&more != 0; at += 4 {
		if len(b) < at+4 {
			return 0
		}
		word = binary.LittleEndian.Uint32(b[at:])
	}
	if present&stamp != 0 {
		at += -at&7 + 8
	}
	if present&flags == 0 || len(b) <= at {
		return 0
	}
	return b[at]
}
