package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture"
)

// liveOptions are the flags about streams of packets that go over TCP while the capture runs.
type liveOptions struct {
	serve string // address, "" = none
	tls   tlsOptions
}

func (o *liveOptions) flags(f *pflag.FlagSet) {
	nameVar(f, &o.serve, "serve", "", "hand packets to whoever connects to this `address`, as wireshark -i TCP@HOST:PORT does; :PORT is 127.0.0.1:PORT; without TLS anybody who can reach it gets all")
	o.tls.flags(f)
}

// A liveServer is the destination of --serve.
type liveServer struct{ *capture.Server }

// openServer listens before anything is attached, and before the process becomes another user.
func openServer(o *liveOptions, w capture.WriterOptions) (*liveServer, string, error) {
	host, port, err := net.SplitHostPort(o.serve)
	if err != nil {
		return nil, "", fmt.Errorf("--serve %s: must be HOST:PORT or :PORT", o.serve)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	config, err := o.tls.config()
	if err != nil {
		return nil, "", err
	}
	if config != nil && o.tls.cert == "" {
		return nil, "", errors.New("--serve with --tls-ca: add --tls-cert and --tls-key, by which clients know this side")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, "", fmt.Errorf("--serve %s: %w", o.serve, err)
	}
	name := "tcp://" + l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return &liveServer{capture.NewServer(l, w)}, name, nil
}

func (s *liveServer) summarize(o *outputSummary) {
	a := s.Account()
	o.Clients, o.ClientsRefused, o.ClientsLost = &a.Clients, a.Refused, a.Lost
}

// dialer returns what connects to the HOST:PORT of a URL.
func dialer(u *url.URL, o *tlsOptions) (func(context.Context) (net.Conn, error), error) {
	if _, _, err := net.SplitHostPort(u.Host); err != nil || u.Path != "" && u.Path != "/" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("must be tcp://HOST:PORT")
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	if config == nil {
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", u.Host) }, nil
	}
	d := &tls.Dialer{Config: config}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", u.Host) }, nil
}

// openSender connects to what -w tcp://HOST:PORT names.
func openSender(u *url.URL, o *captureOptions, notice func(error)) (destination, error) {
	dial, err := dialer(u, &o.live.tls)
	if err != nil {
		return nil, err
	}
	return capture.NewSender(u.String(), dial, notice, o.writer(&target{}))
}
