package read_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// spreadFile is a file with one packet in each of this many seconds.
func spreadFile(t *testing.T, seconds int) string {
	t.Helper()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	b = pcapng.AppendInterface(b, &pcapng.Interface{Name: "eth0", LinkType: pcapng.Ethernet})
	for i := range seconds {
		b = pcapng.AppendPacket(b, &pcapng.Packet{Time: 1_700_000_000_000_000_000 + uint64(i)*1e9, Data: testnet.UDPFrame(100, 0), WireLen: 100, Flags: pcapng.Inbound})
	}
	return writeBytes(t, b)
}

// read has the outputs of the capture: several -w, and series of files by the times of packets, by
// size and by number, with their names. -r means the same.
func TestReadOutputs(t *testing.T) {
	t.Setenv("TZ", "UTC")
	in := spreadFile(t, 20)
	want := systest.MustRead(t, "-t", in)
	for _, test := range []struct {
		line  string
		files string // that exist afterwards
		lines int    // of packets in them
	}{
		{"-G 4 -w %s.pcapng", "1700000000.pcapng 1700000004.pcapng 1700000008.pcapng 1700000012.pcapng 1700000016.pcapng", 20},
		{"-G 4 -w %s.pcap.gz", "1700000000.pcap.gz 1700000004.pcap.gz 1700000008.pcap.gz 1700000012.pcap.gz 1700000016.pcap.gz", 20},
		{"-G 4 -W 2 -w %s.pcapng", "1700000000.pcapng 1700000004.pcapng", 8},
		{"-C 1k -w x.pcapng", "x.pcapng x.pcapng1 x.pcapng2", 20},
		{"-C 1k -W 2 -w x.pcapng", "x.pcapng0 x.pcapng1", 13},
		{"-b interval:5 -w x.pcapng", "x_00001_20231114221320.pcapng x_00002_20231114221325.pcapng x_00003_20231114221330.pcapng x_00004_20231114221335.pcapng", 20},
		{"-b packets:4 --atomic -w x.zst", "x_00001_20231114221320.zst", -1},
		{"-w a.pcapng -w b.pcap", "a.pcapng b.pcap", 40},
	} {
		t.Run(test.line, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			_, stderr, status := systest.RunRead(t, nil, append(strings.Fields(test.line), in)...)
			if status != 0 || stderr != "" && !strings.Contains(test.line, "-G 4 -W 2") {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			entries, err := os.ReadDir(dir)
			testnet.Must(t, err)
			var names []string
			text := ""
			for _, e := range entries {
				names = append(names, e.Name())
				text += systest.MustRead(t, "-t", e.Name())
			}
			if test.lines < 0 { // each begins when it is opened
				if len(names) != 5 || text != want {
					t.Errorf("%q", names)
				}
				return
			}
			if diff := cmp.Diff(strings.Fields(test.files), names); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(text, "\n"); n != test.lines || test.lines == 20 && text != want {
				t.Errorf("%d packets: %s", n, text)
			}
		})
	}
	dir := t.TempDir()
	if out, err := systest.Command("-r", in, "-w", filepath.Join(dir, "%s"), "-G", "5").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("-r: %v: %s", err, out)
	}
	if files, _ := os.ReadDir(dir); len(files) != 4 {
		t.Errorf("-r: %d files", len(files))
	}
}

// Files become samples for a collector of sFlow, with the weights of their packets.
func TestReadIntoSFlow(t *testing.T) {
	t.Parallel()
	collector, err := net.ListenPacket("udp", "127.0.0.1:0")
	testnet.Must(t, err)
	defer collector.Close()
	one, two := spreadFile(t, 3), systest.WriteSample(t, exitSource)
	systest.MustRead(t, "-w", "sflow://"+collector.LocalAddr().String(), one, two.Path)
	collector.SetReadDeadline(time.Now().Add(10 * time.Second))
	samples, buf := 0, make([]byte, 65536)
	for samples < 3+len(two.Packets) {
		_, _, err := collector.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%d samples: %v", samples, err)
		}
		samples += int(buf[27]) // of version 5, from an agent with an IPv4 address
	}
}

// A client of read --serve gets the whole file, even if it connects late. Then the process ends.
func TestReadServes(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, entrySource, exitSource).Path
	socket := filepath.Join(t.TempDir(), "s")
	cmd := systest.Command("read", "--serve", "unix:"+socket, file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	testnet.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	testnet.WaitFor(t, "the socket", func() bool { return accepts(t, socket) })
	if diff := cmp.Diff(systest.MustRead(t, "-v", file), systest.MustRead(t, "-v", "unix:"+socket)); diff != "" {
		t.Error(diff)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &stderr)
	}
}

// accepts reports whether a process accepts connections at a socket in the file system. The socket
// file exists a moment before that.
func accepts(t *testing.T, socket string) bool {
	t.Helper()
	const acceptCon = "00010000" // the flag of sockets that listen
	for line := range strings.Lines(systest.Contents(t, "/proc/net/unix")) {
		if f := strings.Fields(line); f[3] == acceptCon && f[len(f)-1] == socket {
			return true
		}
	}
	return false
}

// receive listens for one stream, which is in the channel when it has ended.
func receive(t *testing.T) (url string, received chan []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testnet.Must(t, err)
	t.Cleanup(func() { l.Close() })
	received = make(chan []byte, 1)
	go func() {
		defer close(received)
		if conn, err := l.Accept(); err == nil {
			stream, _ := io.ReadAll(conn)
			received <- stream
			conn.Close()
		}
	}()
	return "tcp://" + l.Addr().String(), received
}

// A collector gets the packets of several files as one stream, with the same content as a merged
// file.
func TestReadSends(t *testing.T) {
	t.Parallel()
	url, received := receive(t)
	one, two, merged := spreadFile(t, 20), systest.WriteSample(t, entrySource, exitSource).Path, systest.TempFile(t)
	systest.MustRead(t, "-w", merged, one, two)
	systest.MustRead(t, "-w", url, one, two)
	if diff := cmp.Diff(systest.MustRead(t, "-v", merged), systest.MustRead(t, "-v", writeBytes(t, <-received))); diff != "" {
		t.Error(diff)
	}
}
