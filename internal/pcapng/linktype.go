package pcapng

import "fmt"

// linkTypeNames are tcpdump's names of the most common link types.
var linkTypeNames = map[uint16]string{
	0: "NULL", 1: "EN10MB", 6: "IEEE802", 9: "PPP", 10: "FDDI", 12: "RAW", 14: "RAW", 50: "PPP_SERIAL", 51: "PPP_ETHER", 100: "ATM_RFC1483",
	101: "RAW", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 108: "LOOP", 113: "LINUX_SLL", 114: "LTALK", 117: "PFLOG", 119: "PRISM_HEADER",
	122: "IP_OVER_FC", 127: "IEEE802_11_RADIO", 129: "LINUX_IRDA", 138: "APPLE_IP_OVER_IEEE1394", 140: "MTP2", 141: "MTP3", 142: "SCCP",
	143: "DOCSIS", 177: "LINUX_LAPD", 187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4", 201: "BLUETOOTH_HCI_H4_WITH_PHDR",
	220: "USB_LINUX_MMAPPED", 224: "FC_2", 226: "IPNET", 227: "CAN_SOCKETCAN", 228: "IPV4", 229: "IPV6", 239: "NFLOG", 242: "INFINIBAND",
	243: "SCTP", 249: "USBPCAP", 253: "NETLINK", 254: "BLUETOOTH_LINUX_MONITOR", 276: "LINUX_SLL2",
}

// LinkTypeName names a link type by tcpdump's name, if there is one, and its number.
func LinkTypeName(typ uint16) string {
	if name, ok := linkTypeNames[typ]; ok {
		return fmt.Sprintf("link type %s (%d)", name, typ)
	}
	return fmt.Sprintf("link type %d", typ)
}
