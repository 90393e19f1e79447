package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// runIn runs a command in a namespace, and returns what it printed.
func runIn(t *testing.T, ns *testnet.Namespace, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := ns.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// served is where a capture with --serve waits for clients.
func served(t *testing.T, p *process) string {
	t.Helper()
	m := regexp.MustCompile(`clients of tcp://([^\s,]+)`).FindStringSubmatch(p.said())
	if m == nil {
		t.Fatalf("no address in %s", p.said())
	}
	return m[1]
}

// join connects a client to a capture with --serve, and returns what it reads first. From then on
// the client gets every packet.
func join(t *testing.T, pair *testnet.Pair, p *process) (client net.Conn, first []byte) {
	t.Helper()
	if err := pair.Rx.Do(func() (err error) { client, err = net.Dial("tcp", served(t, p)); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	first = make([]byte, 4)
	if _, err := io.ReadFull(client, first); err != nil {
		t.Fatal(err)
	}
	return client, first
}

// While a capture runs, tshark and read get the packets that it writes to its file, from the moment
// they connect.
func TestServe(t *testing.T) {
	skipEmulated(t)
	testnet.Require(t, "tshark")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--max-rate", "1000", "-w", file, "--serve", ":0")
	stop := trickle(t, pair)
	address := served(t, p)
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("clients may come to %s", address)
	}
	live, err := runIn(t, pair.Rx, exec.Command("tshark", "-l", "-n", "-i", "TCP@"+address, "-c", "100",
		"-T", "fields", "-e", "frame.packet_id", "-e", "frame.interface_name"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := runIn(t, pair.Rx, command("read", "-c", "100", "--json", "tcp://"+address))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	p.interrupt()
	inFile := strings.Fields(outputOf(t, "tshark", "-nr", file, "-T", "fields", "-e", "frame.packet_id"))
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
		if err := json.Unmarshal([]byte(line), &keys); err != nil {
			t.Fatal(err)
		}
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

// Programs that read classic pcap alone get it: tshark, and one as Arkime's reader is, which takes
// stamps of microseconds, whole packets, and a whole header before the first one.
func TestServePCAP(t *testing.T) {
	skipEmulated(t)
	testnet.Require(t, "tshark")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--max-rate", "1000", "--serve", ":0", "--format", "pcap")
	defer trickle(t, pair)()
	address := served(t, p)
	live, err := runIn(t, pair.Rx, exec.Command("tshark", "-l", "-n", "-i", "TCP@"+address, "-c", "100", "-T", "fields", "-e", "frame.len"))
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

// With TLS only clients come in that have a certificate of the right authority.
func TestServeTLS(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	makeCertificates(t, dir)
	flags := func(who string) []string {
		return []string{"--tls-cert", filepath.Join(dir, who+".pem"), "--tls-key", filepath.Join(dir, who+".key"), "--tls-ca", filepath.Join(dir, "ca.pem")}
	}
	p := listening(t, pair.Rx, nil, append(flags("server"), "-i", pair.RxName, "--serve", ":0", "--json")...)
	stop := trickle(t, pair)
	url := "tcp://" + served(t, p)
	for _, test := range []struct {
		name string
		args []string
		want string // in the error; "" = none
	}{
		{"a client", flags("client"), ""},
		{"a certificate of its own", flags("stranger"), "tls: "},
		{"no certificate", flags("client")[4:], "tls: "},
		{"another authority", []string{"--tls-ca", filepath.Join(dir, "stranger.pem")}, "certificate signed by unknown authority"},
		{"no TLS", nil, url},
	} {
		out, err := runIn(t, pair.Rx, command(append([]string{"read", "-c", "10", "-q", url}, test.args...)...))
		switch {
		case test.want == "" && (err != nil || strings.Count(out, "\n") != 10):
			t.Errorf("%s: %v: %s", test.name, err, out)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v: %s", test.name, err, out)
		}
	}
	stop()
	s := account(t, p.interrupt())
	if len(s.Outputs) != 1 || s.Outputs[0].Clients == nil || *s.Outputs[0].Clients != 1 || s.Lost != 0 {
		t.Errorf("summary %+v", s)
	}
}

// -w tcp:// sends the packets of the capture, with its statistics at the end.
func TestSend(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var l net.Listener
	if err := pair.Rx.Do(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := tempFile(t)
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
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "tcp://"+l.Addr().String(), "--json")
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	s := account(t, p.interrupt())
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	records, r := readFile(t, file)
	if got := statistics(t, r); len(records) != 300 || s.Captured != 300 || got.PacketsReceived != s.Seen || got.PacketsDropped != 0 {
		t.Errorf("%d packets arrived, statistics %+v, summary %+v", len(records), got, s)
	}
	status, stderr := start(t, pair.Rx, nil, "-i", pair.RxName, "-w", "tcp://"+l.Addr().String()+"/path").wait()
	if status != 1 || !strings.Contains(stderr, "must be tcp://HOST:PORT") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// makeCertificates writes an authority, and certificates of both sides, by it and by themselves.
func makeCertificates(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var authority *x509.Certificate
	var authorityKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client", "stranger"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			IsCA: name == "ca", BasicConstraintsValid: true,
		}
		c.Subject.CommonName = name
		by, byKey := authority, authorityKey
		if name == "ca" || name == "stranger" {
			by, byKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
		if err != nil {
			t.Fatal(err)
		}
		if name == "ca" {
			authority, authorityKey = c, key
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(name+".key", "PRIVATE KEY", secret)
	}
}
