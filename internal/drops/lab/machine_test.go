package lab

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// ofMachine are causes for which a setting of the whole machine is changed, in an emulated one.
var ofMachine = []cause{
	{name: "table of connections", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		l.addChain(chain{family: familyInet, hook: hookPostrouting, policy: accept, kind: "nat", rule: snatTo(testnet.RxEndpoint.IPv4, 5000)})
		l.setMachine("netfilter/nf_conntrack_max", "2")
		l.begin()
		sent := uint64(0)
		for i := range each {
			d := datagram(portOf(conn), 100)
			d[0], d[1] = 40, byte(i)
			sent += l.send(1, packet{payload: d}.frame())
		}
		return sent - l.arrived(conn)
	}, found: byRule, advice: refusedByRule, culprit: "conntrack: the table is full"},
	{name: "memory of UDP", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		raw, err := conn.SyscallConn()
		l.must(err)
		l.must(raw.Control(func(fd uintptr) { l.must(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)) }))
		l.setMachine("ipv4/udp_mem", "0 0 0")
		// Each CPU takes a megabyte without asking.
		return l.send(40*each, packet{payload: datagram(portOf(conn), 1400)}.frame()) - l.arrived(conn)
	}, found: "socket PROTO_MEM *udp*|unclear PROTO_MEM *udp*", advice: "net.ipv4.udp_mem", culprit: ", receive buffer "},
}

// It is serial, because these causes change settings of the machine.
func TestCausesOfMachine(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("changes settings of the machine: `make test-kernels` runs it")
	}
	for _, c := range ofMachine {
		t.Run(c.name, func(t *testing.T) { c.bringAbout(t) })
	}
}

// setMachine sets a variable below /proc/sys/net of the machine until the test ends.
func (l *lab) setMachine(variable, value string) {
	l.Helper()
	path := filepath.Join("/proc/sys/net", variable)
	before, err := os.ReadFile(path)
	l.must(err)
	l.Cleanup(func() { os.WriteFile(path, before, 0) })
	l.must(os.WriteFile(path, []byte(value), 0))
}

// arrived takes the packets out of a socket, and returns how many there were.
func (l *lab) arrived(conn *net.UDPConn) (packets uint64) {
	l.Helper()
	raw, err := conn.SyscallConn()
	l.must(err)
	l.must(raw.Control(func(fd uintptr) { packets = uint64(l.waiting(int(fd))) }))
	return packets
}

// holding runs do while a system call holds the lock of a connection's socket, because it waits for
// the memory into which it reads.
func (l *lab) holding(c *connection, do func()) {
	l.Helper()
	l.must(l.sender.Send(c.segment(segment{data: []byte("x")})))
	c.seq++
	testnet.WaitHandled(l)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	l.must(err)
	defer unix.Munmap(page)
	faults, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		l.Skipf("needs userfaultfd: %v", errno)
	}
	// UFFDIO_API and UFFDIO_REGISTER of <linux/userfaultfd.h>, for pages that are missing.
	const askAPI, register, api, missing = 0xc018aa3f, 0xc020aa00, 0xaa, 1
	control := func(request uintptr, argument *[4]uint64) {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, faults, request, uintptr(unsafe.Pointer(argument))); errno != 0 {
			l.Fatal(errno)
		}
	}
	control(askAPI, &[4]uint64{api})
	control(register, &[4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), uint64(len(page)), missing})
	done := make(chan error, 1)
	go func() {
		_, _, err := unix.Recvfrom(c.fd, page, 0)
		done <- err
	}()
	_, err = unix.Read(int(faults), make([]byte, 32)) // a message: the call waits
	l.must(err)
	do()
	unix.Close(int(faults)) // gives it an empty page
	l.must(<-done)
}
