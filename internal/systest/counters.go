package systest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// MetricsURL returns the address at which a process reports that it serves its metrics.
func MetricsURL(t *testing.T, p *Process) string {
	t.Helper()
	found := regexp.MustCompile(`metrics at (http://\S+)`).FindStringSubmatch(p.Stderr())
	if found == nil {
		t.Fatalf("no metrics: %s", p.Stderr())
	}
	return found[1]
}

// Counting runs a counter command with its output in a file.
func Counting(t *testing.T, pair *testnet.Pair, args ...string) (p *Process, output func() string) {
	t.Helper()
	stdout := NewPipe(t)
	return Listening(t, pair.Rx, stdout.In, args...), func() string { return stdout.Read(t) }
}

// LastObject decodes each line, rejects unknown keys, and returns the last object.
func LastObject[T any](t *testing.T, output string) (last T) {
	t.Helper()
	all := Objects[T](t, output)
	if len(all) == 0 {
		t.Fatal("nothing printed")
	}
	return all[len(all)-1]
}

// Scrape reads the metrics from inside the namespace, over a connection that is dialled there.
func Scrape(t *testing.T, pair *testnet.Pair, url string) (text string) {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	addr, err := net.ResolveTCPAddr("tcp", host)
	if err != nil {
		t.Fatalf("%q: %v", url, err)
	}
	var conn net.Conn
	testnet.Must(t, pair.Rx.Do(func() (err error) { conn, err = net.DialTCP("tcp", nil, addr); return err }))
	defer conn.Close()
	fmt.Fprintf(conn, "GET /metrics HTTP/1.0\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testnet.Must(t, err)
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	return string(body)
}

// A Pipe is a file that keeps a process's output.
type Pipe struct {
	In *os.File // the process's standard output
}

// NewPipe makes a Pipe, which is removed when the test ends.
func NewPipe(t *testing.T) *Pipe {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	testnet.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return &Pipe{f}
}

// Read returns the output so far.
func (p *Pipe) Read(t *testing.T) string {
	t.Helper()
	return Contents(t, p.In.Name())
}
