package dissect

// Dump is the format of the bytes of a packet below its line.
type Dump int

const (
	NoDump       Dump = iota
	HexDump           // -x
	HexASCIIDump      // -X
	ASCIIDump         // -A
)

const hexDigits = "0123456789abcdef"

// graphic returns the byte if it is a printable ASCII character, and a dot otherwise.
func graphic(c byte) byte {
	if c > ' ' && c < 0x7f {
		return c
	}
	return '.'
}

// appendHex appends lines of 16 bytes in hexadecimal, each with an indentation, its offset and,
// with ascii, the bytes as characters.
func appendHex(b, data []byte, ascii bool, indent string) []byte {
	for offset := 0; len(data) > 0; offset += 16 {
		row := data[:min(16, len(data))]
		data = data[len(row):]
		b = append(append(b, indent...), "0x"...)
		shift := 12 // four digits, or as many as the offset has
		for offset>>shift > 15 {
			shift += 4
		}
		for ; shift >= 0; shift -= 4 {
			b = append(b, hexDigits[offset>>shift&15])
		}
		b = append(b, ": "...)
		for i, c := range row {
			if i%2 == 0 {
				b = append(b, ' ')
			}
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
		if !ascii {
			continue
		}
		for i := len(row)*2 + (len(row)+1)/2; i < 42; i++ {
			b = append(b, ' ')
		}
		for _, c := range row {
			b = append(b, graphic(c))
		}
	}
	return b
}

// appendASCII appends the bytes as characters, and keeps line ends and tabs.
func appendASCII(b, data []byte) []byte {
	b = append(b, '\n')
	for i, c := range data {
		switch {
		case c == '\n' || c == '\t' || c == ' ':
			b = append(b, c)
		case c != '\r':
			b = append(b, graphic(c))
		case i+2 < len(data) && data[i+1] != '\n': // a carriage return in the middle of a line
			b = append(b, '.')
		}
	}
	return b
}
