package filtertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// ManyHosts is an expression of n tests, for the hosts 10.0.0.7, 10.0.1.7 and so on.
func ManyHosts(n int) string {
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("host 10.%d.%d.7", i>>8, i&0xff))
	}
	return strings.Join(hosts, " or ")
}

// AnyMask is the netmask with which tcpdump compiles when it has no interface.
var AnyMask = []byte{0, 0, 0, 0}

// Budget returns the number of random cases of a test: FILTER_CASES for long runs, otherwise
// normal.
func Budget(tb testing.TB, normal int) int {
	tb.Helper()
	s := os.Getenv("FILTER_CASES")
	if s == "" {
		return normal
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		tb.Fatalf("FILTER_CASES: %v", err)
	}
	return n
}

// Inner are expressions about packets inside packets: common ones, and ones that are likely to show
// bugs.
var Inner = []string{
	"inner host 10.0.0.1", "inner tcp port 443", "inner inner ip", "inner not ip", "not inner ip", "inner (ip or ip6)",
	"udp port 4789 and inner (tcp and port 80)", "vxlan 5 and inner host 10.0.0.1", "inner vxlan 5", "inner (vxlan and inner host 1.2.3.4)",
	"inner vlan", "inner (vlan 7 and ip)", "inner (vlan and vlan and ip)", "inner mpls", "inner (mpls and ip)", "inner pppoes", "inner (pppoes and ip6)",
	"inner (geneve and ip)", "inner (geneve 5 and geneve) or vxlan", "inner ether host 02:00:00:00:00:01", "inner not ether host 02:00:00:00:00:01",
	"inner ether[0] = 2", "inner ether[12:2] = 0x800", "inner byte 0 = 2", "inner not byte 0 & 1", "inner (vlan and ether[0] = 2)", "inner (vlan and llc)",
	"inner broadcast or multicast", "inner multicast", "inner llc", "inner stp or inner arp", "inner ip broadcast", "inner icmp6[0] = 5",
	"inner tcp[13] & 2 != 0", "inner ip[0] + tcp[0] * 2 = 3 or inner len > 100", "inner protochain 6", "inner port 80 or not inner port 53",
	"inner inner inner inner ip", "inner inner inner inner inner ip", "inner (ip and inner (ip6 and inner tcp))", "vlan and inner ip", "inner ip or vlan",
	"tcp and inner ip or inner tcp", "less 60 or inner host 1.2.3.4", "inner less 100", "inner", "inner and ip", "inner 5", "inner host 1.2.3.4 or 10.0.0.1",
	"inner port (80 or 443)", "port (80 or inner 443)", "inner (ip", "inner inbound", "inner ifindex 1", "inner vxlan and vxlan", "vxlan and inner vxlan and ip",
}

// Corners are common expressions, and expressions that are likely to show bugs.
var Corners = []string{
	"", "ip", "host 192.0.2.1", "net 10.0.0.0/8", "tcp port 443", "tcp port 22 or 80", "port 53 and not host 1.2.3.4 and 10.0.0.1",
	"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0/8", "ip[2:2] > 576", "ip[16] >= 224",
	"ether[0] & 1 = 0 and ip[16] >= 224", "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
	"tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)", "icmp6[icmp6type] = icmp6-neighborsolicit",
	"vlan 100 && vlan 200", "vlan && vlan 300 && ip", "mpls 100000 && mpls 1024", "mpls && mpls 1024 && host 192.9.200.1",
	"pppoes && ip", "pppoes 0x27 && ip", "geneve 0xb && ip", "geneve && ip6 proto 17", "vlan and pppoes and tcp port 80",
	"pppoes and mpls and ip", "geneve and ether host 02:00:00:00:00:01", "geneve and vlan 5 and ip6", "geneve and ip and tcp port 22",
	"geneve and geneve and tcp[0] = 3", "geneve and pppoes and port 5", "geneve and ether[0] = 5 and ip[0] = 1", "geneve and icmp6[0] = 5",
	"1 + tcp[0] = 5", "tcp[0] + udp[0] = 5", "5 = tcp[0]", "len / 3 % 2 ^ 1 = 0", "2 * 3 % 4 + 1 = 6", "-2 % 3 + 4 = 0", "len << 33 - 2 = 0",
	"ether[-2] = 0", "ether[-2:2] != 0", "ip[70000] = 1", "len = 0xffffffff + 1", "not (not ip)", "((((ip))))", "(len) > 5", "(5) < len",
	"len / (0 + len) = 1", "len / (2 - 2) = 1", "len % (1 - 1) = 0", "len << 32 = 0", "1 << (len - len) = 1", "ip[0:3] = 5", "isis[0] = 1",
	"ip[1] = 256 or ip[1] = 1", "len & 3 = 8 or len & 3 = 2", // never true: the optimiser once looped endlessly
	"vxlan and vxlan or ether[0] & 3 = 2", "vxlan and (geneve or vxlan) or ether[0] = 2", // absent in absent
	"tcp and udp", "ip and ip6", "less 5 and greater 10", "tcp or not tcp", "0 = 0", "0 = 1", "1 > 0", "host 0", "net 0", "port 65536", "portrange 1-65536",
	"portrange 80-http", "portrange domain-4294967295", "portrange 1", "portrange x", "tcp portrange ssh-tftp", "udp port ssh", "port 08", "port 4294967296",
	"1.2.3.4", "foo", "80", "host", "tcp port", "tcp 80", "ip 1.2.3.4", "src proto 6", "src or src 1.2.3.4", "src or dst or 1.2.3.4", "not", "()", "(ip", "ip)", "ip ip",
	"and ip", "ip and", "host 1.2.3.4 and (5.6.7.8 and tcp)", "host ((1.2.3.4) or 5.6.7.8)", "port ((22) or 80)", "port (not 22 or 80)", "port (22)",
	"tcp port 80 and (22)", "tcp port 80 and (22 + 1 = len)", "tcp port 80 and (not 22 or 443)", "tcp port 80 and (not tcp or 443)", "(tcp port 80) or 90",
	"tcp port 80 or (udp port 90 and 100) or 200", "ip host ::1", "ip6 host 1.2.3.4", "arp host ::1", "tcp host 1.2.3.4", "ether host 1.2.3.4", "host 02:00:00:00:00:01",
	"ether 02:00:00:00:00:01", "ether dst 02:00:00:00:00", "host 256.1.1.1", "host 1.2.3.025", "host 0x1.2.3.4", "net 10/8", "net 1.2.3.4/24", "net 1.2.3.0/33",
	"net 10.0.0.0 mask 255", "net 10.0.0.1 mask 255.0.0.0", "host 1.2.3.4/32", "net ::1/129", "net fe80::1/10", "host fe80::/10", "host ::1/128", "port ::1",
	"vlan 4096", "vlan (5", "mpls 1048576", "pppoes 65536", "geneve 16777216", "mpls and vlan", "mpls and arp", "pppoes and vlan", "pppoes and llc", "pppoes and ether host 02:00:00:00:00:01",
	"pppoes and broadcast", "pppoes and ip multicast", "llc foo", "llc RR", "radio[0] = 1", "type mgt", "wlan addr1 02:00:00:00:00:01", "vpi 3", "on eth0", "rset x", "fisu", "gateway foo",
	"ether gateway foo", "gateway 1.2.3.4", "decnet host foo", "decnet host 1.2", "atalk host 1.2.3.4", "arp proto 5", "isis proto foo", `iso proto \foo`, "ether proto foo",
	`proto \nonexistent`, "ether proto 0x88cc", "ether proto 1500", "ether proto 1501", "ether proto 6", "ether proto 0xf0", "ip6 multicast", "arp broadcast", "ip6 broadcast", "tcp multicast", "broadcast", "multicast",
	"$5", "ether host $5", "ip & 5", "tcp[", "tcp[0", "tcp[0:x] = 1", "tcp[0] =", "len", "len + 5", "(len + 5)", "len +", "-", "- = 5", "1:2:3", "::1", "host 1::2::3",
	"ip\tand\nudp", "ip!=5", "ip and!udp", "byte 1 ^ 2", "byte 5 = ", "less", "less len", "host 1.2.3.4.5", "link[12:2] = 0x800", "slip[0]=0", "tr host 2:0:0:0:0:1",
	"ether host 2-0-0-0-0-1", "ether host 0200.0000.0001", "ether host 020000000001", `host \127.0.0.1`, "net loopback", "net default", "net link-local", "(tcp or udp) port 80",
	"not tcp port 80 or 443", "not not ip", "!ip", "! ip and ! tcp", "ip || udp && tcp", "ip6 and tcp[0] = 5", "host localhost", "ip host localhost", "tcp-syn = 2", "ether src and dst 02:00:00:00:00:01",
	"not host 10.0.0.1 or host 10.0.0.3 or (tcp and not host 192.168.1.1) or host 192.168.1.1",
	"host 192.168.1.1 and not ((host 10.0.0.1 or host 10.0.0.2) and icmp) and not (host 10.0.0.2 or host 192.168.1.1)",
	"vxlan and ip", "vxlan and arp", "vxlan and ip6", "vxlan and (not arp or ip6)", "1/2=1/3&&1>4/5&&1>6/7", "vxlan or tcp", "geneve or not ip",
	"len >= 2147483648 & 2147483648 or len < 0 | 2147483648", "mpls and vxlan and tcp", "ip[-2:2] = 0x800", "tcp[-1] = 1", "ip[len - 64] = 0",
	"tcp[((tcp[12] & 0xf0) >> 2):4] = 0x7061796c", "ip[0x80000000] = 0", "1 + (2 - icmp[0]) = 5",
	"len / (len - 50) >= 0", "len % (len - 50) >= 0 or ip", "ip[0] = 1 or len / (len - 50) = 7 or ip[0] = 0x45", "ether[0] & 3 = 0 or ether[0] & 3 = 2",
	"mpls and vxlan and ip", "mpls and vxlan and port 22", "mpls and geneve and ip",
	"ip[0] / (len - 50) * 0 = 0 or arp",
	"protochain 6", `ip6 protochain \\udp`, "ip protochain 17", "ip6 protochain 58 and not ip6 proto 58", "not protochain 6 or vxlan and protochain 6",
	"ether protochain 6", "tcp protochain 6", "src protochain 6", "protochain 256", "ifindex 1", "not ifindex 1 and ip", "es-is or is-is", "sca", "decnet src 10.4", "decnet dst 1.5", "ether[50] & 0 = 0", "ether[50] & 0 = 1 or ip", "ether[50] * 0 = 0", "ether[50] << 0 = 0 or ip", "ip[50] / 1 | 0 = 5", "len-5 = 3", "len - 5 = 3", "4-2 = 2", "icmp[0]=tcp-syn", "ip[0", "ip[len] = 5", "ip[ip[0]] = ip[tcp[1]]", "ip[ip[ip[ip[0]]]] = 5",
}
