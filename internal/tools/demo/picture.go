package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A scene is a command that runs on a terminal.
type scene struct {
	command       string
	columns, rows int
	lasts         time.Duration // until the picture is taken
}

var scenes = []scene{
	{"xdpcap -i eth0 -q -c 6 'dst port 53 or tcp'", pictureColumns, 13, 4 * time.Second},
	{"xdpcap top -i eth0", pictureColumns, 14, 40 * time.Second},
}

const pictureColumns = 100

// picture draws into an SVG file what xdpcap shows on a terminal, on a network of its own with one
// card that receives traffic.
func picture(xdpcap, file string) error {
	return testnet.Try(context.Background(), func(tb testnet.TB) {
		ns := testnet.MustNamespace(tb)
		card := mustCard(tb, ns)
		ctx, stop := context.WithCancel(tb.Context())
		defer stop()
		sent := make(chan error, 1)
		go func() { sent <- feed(ctx, card) }()
		var lines []string
		for _, s := range scenes {
			lines = append(lines, append(s.play(tb, ns, xdpcap), "")...)
		}
		stop()
		testnet.Must(tb, <-sent)
		drawing := svg("xdpcap on a terminal: a capture, and top", lines[:len(lines)-1], pictureColumns)
		testnet.Must(tb, os.WriteFile(file, []byte(drawing), 0o644))
	})
}

// mustCard makes an interface that receives what is written into the file. It is a tap device,
// whose driver runs XDP natively: on a veth xdpcap would print that XDP costs more there.
func mustCard(tb testnet.TB, ns *testnet.Namespace) (card *os.File) {
	to := testnet.RxEndpoint
	testnet.Must(tb, ns.Do(func() error {
		tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_ONE_QUEUE, NonPersist: true, Queues: 1}
		tap.Name = "eth0"
		if err := netlink.LinkAdd(tap); err != nil {
			return fmt.Errorf("make a tap device: %w", err)
		}
		card = tap.Fds[0]
		tb.Cleanup(func() { card.Close() })
		for _, port := range []int{53, 443} { // no socket listens at port 5000
			listener, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
			if err != nil {
				return err
			}
			tb.Cleanup(func() { listener.Close() })
			go io.Copy(io.Discard, listener)
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: to.IPv4, Mask: net.CIDRMask(24, 32)}}
		return errors.Join(netlink.LinkSetHardwareAddr(tap, to.MAC), netlink.AddrAdd(tap, address), netlink.LinkSetUp(tap))
	}))
	return card
}

// feed writes the frames of several hosts into the card, until ctx is done.
func feed(ctx context.Context, card *os.File) error {
	flows := []struct {
		frame  []byte
		rate   float64 // packets per second, on average
		period float64 // seconds in which it rises and falls
		owed   float64
	}{
		{from(10).UDP(41000, 443, make([]byte, 1200)), 900, 30, 0},
		{from(11).UDP(41874, 443, make([]byte, 1200)), 400, 20, 0},
		{from(12).TCP(testnet.Segment{SrcPort: 52344, DstPort: 443, Seq: 1, Ack: 1, Payload: make([]byte, 500)}), 120, 15, 0},
		{from(13).DNSQuery("example.org"), 80, 12, 0},
		{from(14).UDP(5004, 5000, make([]byte, 160)), 50, 60, 0},
		{from(15).ICMPEcho(false, 1), 2, 60, 0},
	}
	const gap = 10 * time.Millisecond
	ticker := time.NewTicker(gap)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for i := range flows {
			f := &flows[i]
			f.owed += f.rate * gap.Seconds() * (1 + 0.8*math.Sin(2*math.Pi*time.Since(began).Seconds()/f.period))
			for ; f.owed >= 1; f.owed-- {
				if _, err := card.Write(f.frame); err != nil {
					return fmt.Errorf("send to the tap device: %w", err)
				}
			}
		}
	}
}

// from is the path from a host of this number to the card.
func from(host byte) testnet.Path {
	p := testnet.TxToRx()
	p.Src.IPv4 = net.IP{192, 0, 2, host}
	return p
}

// play runs the command in a terminal of tmux's, and returns the last lines of that, below the
// command itself.
func (s *scene) play(tb testnet.TB, ns *testnet.Namespace, xdpcap string) (lines []string) {
	dir := tb.TempDir()
	settings := filepath.Join(dir, "tmux.conf")
	testnet.Must(tb, os.WriteFile(settings, []byte("set -g status off\nset -g default-terminal screen\n"), 0o600))
	binary, err := filepath.Abs(xdpcap)
	testnet.Must(tb, err)
	tmux := func(args ...string) *exec.Cmd {
		cmd := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(dir, "socket"), "-f", settings}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "XDPCAP_CONFIG=/dev/null")
		return cmd
	}
	start := tmux("new-session", "-d", "-x", fmt.Sprint(s.columns), "-y", fmt.Sprint(s.rows), s.command+"; sleep 1000")
	testnet.Must(tb, ns.Start(start))
	if err := start.Wait(); err != nil {
		tb.Fatalf("tmux: %v", err)
	}
	time.Sleep(s.lasts)
	shown, err := tmux("capture-pane", "-e", "-p").Output()
	if err = errors.Join(err, tmux("kill-server").Run()); err != nil {
		tb.Fatalf("tmux: %v", err)
	}
	lines = strings.Split(strings.TrimRight(string(shown), "\n"), "\n")
	return append([]string{"\x1b[32m$\x1b[39m \x1b[1msudo " + s.command + "\x1b[0m"}, lines...)
}
