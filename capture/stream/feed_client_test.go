package stream

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A lateConn is a socket whose write deadlines pass when the test calls pass.
type lateConn struct {
	net.Conn
	bound  time.Time // zero = no deadline
	writes atomic.Int64
}

func (c *lateConn) SetWriteDeadline(by time.Time) error {
	c.bound = by
	return c.Conn.SetWriteDeadline(by)
}

func (c *lateConn) Write(b []byte) (int, error) {
	defer c.writes.Add(1)
	return c.Conn.Write(b)
}

// pass makes the deadline pass, if there is one.
func (c *lateConn) pass() {
	if !c.bound.IsZero() {
		c.Conn.SetWriteDeadline(time.Unix(1, 0))
	}
}

// A client may request new TLS keys long after the last packet, and still gets the next packet. The
// deadline of the end stays.
func TestFeedClientKeyUpdate(t *testing.T) {
	t.Parallel()
	feedTest(t)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	socket := &lateConn{Conn: here}
	conn := newFeedConn(socket)
	var keys bytes.Buffer
	peer := tls.Client(there, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &keys})
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	config := withCertificate()
	config.SessionTicketsDisabled = true
	must(t, conn.secure(t.Context(), tls.Server(conn.socket, config)))
	must(t, <-shaken)
	if suite := peer.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("makes records of AES-128-GCM, not of %s", tls.CipherSuiteName(suite))
	}
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, 10)
		n, _ := io.ReadFull(peer, b)
		got <- b[:n]
	}()
	conn.listen()
	defer conn.close()
	f, c := newFeed(Options{}, testnet.Patience), newFeedClient(conn, 1)
	must(t, f.send(c, []byte("first"), nil))
	socket.pass()
	before := socket.writes.Load()
	if _, err := there.Write(keyUpdate(t, keys.String())); err != nil {
		t.Fatal(err)
	}
	testnet.WaitFor(t, "the answer to be sent or to fail", func() bool { return socket.writes.Load() > before })
	f.endsAt = time.Now().Add(testnet.Patience)
	if err := f.send(c, []byte("later"), nil); err != nil {
		t.Error(err)
		there.Close()
	}
	if b := <-got; string(b) != "firstlater" {
		t.Errorf("the client got %q", b)
	}
	if !socket.bound.Equal(f.endsAt) {
		t.Errorf("at the end the deadline is %v, want %v", socket.bound, f.endsAt)
	}
}

// keyUpdate returns a client's first record of TLS 1.3 after the handshake, with AES-128-GCM: a
// KeyUpdate that requests one from the peer, too (RFC 8446, sections 4.6.3, 5.2 and 7.3). log is
// the output of a KeyLogWriter.
func keyUpdate(t *testing.T, log string) []byte {
	t.Helper()
	_, line, _ := strings.Cut(log, "CLIENT_TRAFFIC_SECRET_0 ")
	line, _, _ = strings.Cut(line, "\n")
	_, digits, _ := strings.Cut(line, " ")
	secret, err := hex.DecodeString(digits)
	must(t, err)
	expand := func(label string, n int) []byte {
		label = "tls13 " + label
		info := append([]byte{0, byte(n), byte(len(label))}, label+"\x00"...)
		b, err := hkdf.Expand(sha256.New, secret, string(info), n)
		must(t, err)
		return b
	}
	block, err := aes.NewCipher(expand("key", 16))
	must(t, err)
	seal, err := cipher.NewGCM(block)
	must(t, err)
	message := []byte{24, 0, 0, 1, 1, 22} // key_update, its length, update_requested; of a handshake
	head := []byte{23, 3, 3, 0, byte(len(message) + seal.Overhead())}
	return seal.Seal(head, expand("iv", 12), message, head) // the first record's nonce is the iv
}
