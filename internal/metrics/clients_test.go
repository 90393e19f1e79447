package metrics

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// exporter answers scrapes on loopback, and uses addresses as peers: a test has one user.
func exporter(t *testing.T) *Exporter {
	t.Helper()
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	e.clients.users.Close()
	e.Serve(prometheus.NewRegistry())
	return e
}

// On loopback only requests that name this host are answered.
func TestHost(t *testing.T) {
	t.Parallel()
	e := exporter(t)
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:9432": 200, "[::1]": 200, "192.0.2.1": 200, "localhost": 200, "LOCALHOST.:80": 200, "a.localhost": 200, own: 200,
		"rebound.example": 421, "rebound.example:9432": 421, "localhost.example": 421, own + ".example": 421,
	} {
		r, err := http.NewRequest("GET", "http://"+e.Address()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s", host, answer.Status)
		}
	}
}

// One client that opens ever more connections does not close those of another client.
func TestConnectionsOfOne(t *testing.T) {
	t.Parallel()
	e := exporter(t)
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := d.Dial("tcp", e.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	scraper := from("127.0.0.2")
	for range 3 * maxConnections {
		flood := from("127.0.0.3")
		fmt.Fprint(flood, "GET /metrics HTTP/1.1\r\n")
	}
	scrape := func(conn net.Conn) {
		fmt.Fprint(conn, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
		conn.SetReadDeadline(time.Now().Add(testnet.Patience))
		if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), "200 OK") {
			t.Errorf("from %v: %v: %s", conn.LocalAddr(), err, text)
		}
	}
	scrape(from("127.0.0.3")) // the server has seen all that came before
	scrape(scraper)
}
