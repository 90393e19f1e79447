package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// An Exporter serves the metrics of a command over HTTP, and a page that shows them. A nil Exporter
// serves none; its methods Serve and Close do nothing.
type Exporter struct {
	listener net.Listener
	clients  connections
	server   *http.Server
	finished chan struct{} // closed when the server has ended
}

// Listen listens on an address, HOST:PORT. It returns nil if that is empty.
func Listen(address string) (*Exporter, error) {
	if address == "" {
		return nil, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, errors.New("must be HOST:PORT, or :PORT for all addresses of this machine, like 127.0.0.1:9432")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; give the address of this machine and a port that is free, like 127.0.0.1:9432", err)
	}
	e := &Exporter{listener: l}
	e.clients.users, _ = machine.NewPeerFinder(l) // nil if the kernel does not report users: peers are then addresses
	return e, nil
}

// Serve begins to answer scrapes.
func (e *Exporter) Serve(g prometheus.Gatherer) {
	if e == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", checkHost(promhttp.HandlerFor(g, promhttp.HandlerOpts{})))
	mux.Handle("GET /{$}", checkHost(&livePage{gatherer: g}))
	e.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		ConnState:         e.clients.update,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // its messages contain text from any client
	}
	e.finished = make(chan struct{})
	go func() {
		defer close(e.finished)
		e.server.Serve(e.listener) // returns when closed
	}()
}

// Address returns the address on which it listens, as HOST:PORT.
func (e *Exporter) Address() string { return e.listener.Addr().String() }

// String returns a text for users with the URL of the metrics.
func (e *Exporter) String() string {
	text := fmt.Sprintf("metrics at http://%v/metrics", e.listener.Addr())
	if a, ok := e.listener.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		text += " by every address of this machine"
	}
	return text
}

// Close gives a scrape one second to end, and returns when all goroutines have ended. It may be
// called again.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	defer e.clients.users.Close()
	if e.server == nil {
		e.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.server.Shutdown(ctx) != nil {
		e.server.Close()
	}
	<-e.finished
}
