package cbpf

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
	EtherERSPAN3  = 0x22eb
	EtherTEB      = 0x6558 // an Ethernet frame in another protocol
	EtherRARP     = 0x8035
	EtherATALK    = 0x809b
	EtherAARP     = 0x80f3
	Ether8021Q    = 0x8100
	EtherIPX      = 0x8137
	EtherIP6      = 0x86dd
	EtherMPLS     = 0x8847
	EtherMPLSUp   = 0x8848 // with a label that the receiver has assigned
	EtherSlow     = 0x8809
	EtherPPPoED   = 0x8863
	EtherPPPoES   = 0x8864
	Ether8021AD   = 0x88a8
	EtherERSPAN   = 0x88be
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
	IPIPIP        = 4
	IPTCP         = 6
	IPIGRP        = 9
	IPUDP         = 17
	IPHopByHop    = 0
	IPIPv6        = 41
	IPRouting     = 43
	IPFragment    = 44
	IPDestination = 60
	IPGRE         = 47
	IPESP         = 50
	IPAH          = 51
	IPICMP6       = 58
	IPPIM         = 103
	IPVRRP        = 112 // and CARP
	IPSCTP        = 132
	IPMPLS        = 137
	IPEthernet    = 143
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

// Numbers of PPP (RFC 1661 and later).
const (
	PPPIP   = 0x21
	PPPIP6  = 0x57
	PPPMPLS = 0x0281
)

// UDP ports of tunnels (IANA; 8472 is what Linux and others used before VXLAN had a port).
const (
	GTPPort      = 2152
	VXLANPort    = 4789
	VXLANGPEPort = 4790
	GenevePort   = 6081
	MPLSPort     = 6635
	VXLANOldPort = 8472
)
