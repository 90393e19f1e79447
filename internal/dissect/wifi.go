package dissect

import "github.com/xdpcap/xdpcap/internal/headers"

var (
	wifiKinds    = map[uint8]string{headers.WiFiManagement: "Management", headers.WiFiControl: "Control", headers.WiFiData: "Data"}
	wifiManaging = map[uint8]string{0: "Assoc Request", 1: "Assoc Response", 2: "ReAssoc Request", 3: "ReAssoc Response", 4: "Probe Request",
		5: "Probe Response", 8: "Beacon", 9: "ATIM", 10: "Disassociation", 11: "Authentication", 12: "DeAuthentication", 13: "Action"}
	wifiControl = map[uint8]string{8: "BAR", 9: "BA", 10: "Power Save-Poll", 11: "Request-To-Send", 12: "Clear-To-Send",
		13: "Acknowledgment", 14: "CF-End", 15: "CF-End+CF-Ack"}
)

// wifi appends an IEEE 802.11 frame: its kind, its addresses and its length, or the data of a frame
// that is not encrypted. It returns the size of the headers. tcpdump prints more of these frames.
func (d *Dissector) wifi(b []byte, length int, typ headers.Link) (header int) {
	d.proto = "802.11"
	f, ok := typ.Frame(b)
	if !ok {
		d.truncated()
		return len(b)
	}
	if !f.Protected && len(f.Data) >= 3 {
		if d.o.LinkLevel {
			d.wifiAddresses(&f)
			d.addf(", length %d: ", length)
		}
		return f.Size + d.llc(f.Data, length-f.Size, f.Source, f.Destination)
	}
	name := wifiKinds[f.Kind]
	switch f.Kind {
	case headers.WiFiManagement:
		name = lookUp(wifiManaging, f.Subtype, "Management")
	case headers.WiFiControl:
		name = lookUp(wifiControl, f.Subtype, "Control")
	}
	d.addf("802.11 %s", name)
	if f.Protected {
		d.add(", encrypted")
	}
	d.add(", ")
	d.wifiAddresses(&f)
	d.addf(", length %d", length)
	return f.Size
}

// wifiAddresses appends the source, if there is one, and the destination.
func (d *Dissector) wifiAddresses(f *headers.WiFiFrame) {
	if f.Source != nil {
		d.addf("%s ", d.mac(f.Source, 0))
	}
	if f.Destination != nil {
		d.addf("> %s", d.mac(f.Destination, 0))
	}
}
