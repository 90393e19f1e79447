package streams_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// While a capture runs, tshark and read get the packets that it writes to its file, from the moment
// they connect.
func TestServe(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "tshark")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--max-rate", "1000", "-w", file, "--serve", ":0")
	stop := systest.Trickle(t, pair)
	address := systest.Served(t, p)
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("clients may come to %s", address)
	}
	live, err := systest.RunIn(t, pair.Rx, exec.Command("tshark", "-l", "-n", "-i", "TCP@"+address, "-c", "100",
		"-T", "fields", "-e", "frame.packet_id", "-e", "frame.interface_name"))
	testnet.Must(t, err)
	lines, err := systest.RunIn(t, pair.Rx, systest.Command("read", "-c", "100", "--json", "tcp://"+address))
	testnet.Must(t, err)
	stop()
	p.Interrupt()
	inFile := strings.Fields(systest.OutputOf(t, "tshark", "-nr", file, "-T", "fields", "-e", "frame.packet_id"))
	var ids, read []string
	for line := range strings.Lines(live) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name != pair.RxName {
			t.Errorf("interface %q", name)
		}
		ids = append(ids, id)
	}
	for line := range strings.Lines(lines) {
		var keys struct{ ID uint64 }
		testnet.Must(t, json.Unmarshal([]byte(line), &keys))
		read = append(read, fmt.Sprint(keys.ID))
	}
	for who, got := range map[string][]string{"tshark": ids, "read": read} {
		if len(got) != 100 {
			t.Fatalf("%s got %d packets", who, len(got))
		}
		at := slices.Index(inFile, got[0])
		if at < 0 || !slices.Equal(got, inFile[at:at+100]) {
			t.Errorf("%s got other packets than the file has: %v", who, got)
		}
	}
}

// Programs that only read classic pcap get it: tshark, and one like Arkime's reader, which needs
// stamps of microseconds, whole packets, and a whole header before the first one.
func TestServePCAP(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "tshark")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--max-rate", "1000", "--serve", ":0", "--format", "pcap")
	defer systest.Trickle(t, pair)()
	address := systest.Served(t, p)
	live, err := systest.RunIn(t, pair.Rx, exec.Command("tshark", "-l", "-n", "-i", "TCP@"+address, "-c", "100", "-T", "fields", "-e", "frame.len"))
	if err != nil || len(strings.Fields(live)) != 100 {
		t.Errorf("tshark: %v: %s", err, live)
	}
	var conn net.Conn
	if err := pair.Rx.Do(func() (err error) {
		conn, err = net.Dial("tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(testnet.Patience))
	header := make([]byte, 24)
	if _, err := io.ReadFull(conn, header); err != nil || binary.LittleEndian.Uint32(header) != 0xa1b2c3d4 || header[20] != 1 {
		t.Fatalf("header %x, %v", header, err)
	}
	for range 100 {
		record, data := make([]byte, 16), make([]byte, 1<<16)
		if _, err := io.ReadFull(conn, record); err != nil {
			t.Fatal(err)
		}
		le := binary.LittleEndian
		seconds, micro, captured, length := le.Uint32(record), le.Uint32(record[4:]), le.Uint32(record[8:]), le.Uint32(record[12:])
		if since := time.Since(time.Unix(int64(seconds), int64(micro)*1000)); captured != length || length > 1<<16 || micro >= 1e6 || since < 0 || since > time.Minute {
			t.Fatalf("record %x", record)
		}
		if _, err := io.ReadFull(conn, data[:captured]); err != nil {
			t.Fatal(err)
		}
	}
}

// With TLS only clients with a certificate of the right authority are admitted.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	systest.MakeCertificates(t, dir)
	flags := func(who string) []string {
		return []string{"--tls-cert", filepath.Join(dir, who+".pem"), "--tls-key", filepath.Join(dir, who+".key"), "--tls-ca", filepath.Join(dir, "ca.pem")}
	}
	p := systest.Listening(t, pair.Rx, nil, append(flags("server"), "-i", pair.RxName, "--serve", ":0", "--json")...)
	stop := systest.Trickle(t, pair)
	url := "tcp://" + systest.Served(t, p)
	for _, test := range []struct {
		name string
		args []string
		want string // in the error; "" = no error
	}{
		{"a client", flags("client"), ""},
		{"a certificate of its own", flags("stranger"), "tls: "},
		{"no certificate", flags("client")[4:], "tls: "},
		{"another authority", []string{"--tls-ca", filepath.Join(dir, "stranger.pem")}, "certificate signed by unknown authority"},
		{"no TLS", nil, url},
	} {
		out, err := systest.RunIn(t, pair.Rx, systest.Command(append([]string{"read", "-c", "10", "-q", url}, test.args...)...))
		switch {
		case test.want == "" && (err != nil || strings.Count(out, "\n") != 10):
			t.Errorf("%s: %v: %s", test.name, err, out)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v: %s", test.name, err, out)
		}
	}
	stop()
	s := systest.Account(t, p.Interrupt())
	if len(s.Outputs) != 1 || s.Outputs[0].Clients == nil || *s.Outputs[0].Clients != 1 || s.Lost != 0 {
		t.Errorf("summary %+v", s)
	}
}

// -w tcp:// sends the packets of the capture, with its statistics at the end.
func TestSend(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.MustListen(t, pair.Rx)
	file := systest.TempFile(t)
	received := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			received <- err
			return
		}
		defer conn.Close()
		text, err := io.ReadAll(conn)
		received <- errors.Join(err, os.WriteFile(file, text, 0o600))
	}()
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "tcp://"+l.Addr().String(), "--json")
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	s := systest.Account(t, p.Interrupt())
	testnet.Must(t, <-received)
	records, r := systest.ReadFile(t, file)
	if got := systest.Statistics(t, r); len(records) != 300 || s.Captured != 300 || got.PacketsReceived != s.Seen || got.PacketsDropped != 0 {
		t.Errorf("%d packets arrived, statistics %+v, summary %+v", len(records), got, s)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", "tcp://"+l.Addr().String()+"/path").Wait()
	if status != 1 || !strings.Contains(stderr, "must be tcp://HOST:PORT") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// Without TLS, a notice warns that others can read the packets on their way to another host.
func TestSendPlain(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	for _, host := range []string{"127.0.0.1", testnet.RxEndpoint.IPv4.String()} {
		var l net.Listener
		if err := pair.Rx.Do(func() (err error) {
			l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() { // the end waits for a reader
			if conn, err := l.Accept(); err == nil {
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		url := "tcp://" + l.Addr().String()
		said := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", url).Interrupt()
		const notice = ": whoever is on the way there can read and change the packets: add --tls-ca "
		if got := strings.Contains(said, "-w "+url+notice); got != (host != "127.0.0.1") {
			t.Errorf("%s: %s", url, said)
		}
	}
}
