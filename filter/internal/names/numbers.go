package names

// The numbers in packet headers: types of Ethernet frames (IEEE), and access points of 802.2.
const (
	EtherNS       = 0x0600
	EtherIP       = 0x0800
	EtherARP      = 0x0806
	EtherMOPDL    = 0x6001
	EtherMOPRC    = 0x6002
	EtherDECNET   = 0x6003
	EtherLAT      = 0x6004
	EtherSCA      = 0x6007
	EtherTEB      = 0x6558
	EtherRARP     = 0x8035
	EtherATALK    = 0x809b
	EtherAARP     = 0x80f3
	Ether8021Q    = 0x8100
	EtherIPX      = 0x8137
	EtherIP6      = 0x86dd
	EtherMPLS     = 0x8847
	EtherSlow     = 0x8809
	EtherPPPoED   = 0x8863
	EtherPPPoES   = 0x8864
	Ether8021AD   = 0x88a8
	EtherLLDP     = 0x88cc
	EtherLoopback = 0x9000
	EtherQinQ     = 0x9100

	MaxLength = 1500 // a type field up to this is a length, and an 802.2 header follows

	SAPIP      = 0x06
	SAPSTP     = 0x42
	SAPSNAP    = 0xaa
	SAPIPX     = 0xe0
	SAPNETBEUI = 0xf0
	SAPISO     = 0xfe
)

// Numbers of protocols above IP (IANA).
const (
	IPICMP        = 1
	IPIGMP        = 2
	IPTCP         = 6
	IPIGRP        = 9
	IPUDP         = 17
	IPHopByHop    = 0
	IPRouting     = 43
	IPFragment    = 44
	IPDestination = 60
	IPESP         = 50
	IPAH          = 51
	IPICMP6       = 58
	IPPIM         = 103
	IPVRRP        = 112 // and CARP
	IPSCTP        = 132
)

// Protocols of ISO (ISO/TR 9577), and packet types of IS-IS (ISO 10589).
const (
	ISOCLNP = 129
	ISOESIS = 130
	ISOISIS = 131

	ISISL1IIH  = 15
	ISISL2IIH  = 16
	ISISPTPIIH = 17
	ISISL1LSP  = 18
	ISISL2LSP  = 20
	ISISL1CSNP = 24
	ISISL2CSNP = 25
	ISISL1PSNP = 26
	ISISL2PSNP = 27
)

// PPPMPLS is PPP's number for MPLS (RFC 3032), GenevePort the UDP port of Geneve (RFC 8926),
// VXLANPort that of VXLAN (RFC 7348).
const (
	PPPMPLS    = 0x0281
	GenevePort = 6081
	VXLANPort  = 4789
)
