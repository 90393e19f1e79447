package outputs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/localsocket"
)

// liveOptions are the flags for live streams of packets over TCP.
type liveOptions struct {
	Serve  string      // address, "" = none
	Format file.Format // of the packets that are sent
	TLS    TLSOptions
}

// Flags defines them.
func (o *liveOptions) Flags(f *pflag.FlagSet) {
	frame.NameVar(f, &o.Serve, "serve", "", "send packets to every client that connects to this `address`, such as wireshark -i TCP@HOST:PORT; --format pcap is for those that read no pcapng; :PORT is 127.0.0.1:PORT, unix:PATH is a socket for its owner alone; without TLS, whoever can reach the address gets all packets")
	o.TLS.flags(f)
}

// IsLocal says whether clients connect to a socket in the file system.
func (o *liveOptions) IsLocal() bool {
	_, ok := localsocket.Path(o.Serve)
	return ok
}

// A liveServer is the destination of --serve.
type liveServer struct {
	*stream.Server
	local *localsocket.Listener // nil = it listens on an address
	where string                // a message's words about who may connect
	open  bool                  // anybody who can reach the address may connect
}

// streamOf are the options of a stream that says what a file says.
func streamOf(w file.Options) stream.Options {
	return stream.Options{PCAP: w.Format == file.PCAP, Application: w.Application, CommandLine: w.CommandLine, Comments: w.Comments, Immediate: w.Immediate}
}

// OpenServer listens before anything is attached, and before the process becomes another user.
func openServer(ctx context.Context, o *liveOptions, w file.Options) (*liveServer, string, error) {
	config, err := o.TLS.config(ctx)
	if err != nil {
		return nil, "", err
	}
	if path, ok := localsocket.Path(o.Serve); ok {
		l, err := localsocket.Listen(path)
		if err != nil {
			return nil, "", fmt.Errorf("--serve %s: %w", o.Serve, err)
		}
		return &liveServer{Server: stream.NewServer(l, nil, streamOf(w)), local: l, where: ", a socket for its owner alone"}, o.Serve, nil
	}
	host, port, err := net.SplitHostPort(o.Serve)
	if err != nil {
		return nil, "", fmt.Errorf("--serve %s: must be HOST:PORT, :PORT or unix:PATH", o.Serve)
	}
	if config != nil && o.TLS.cert == "" {
		return nil, "", errors.New("--serve with --tls-ca: add --tls-cert and --tls-key, by which clients know this side")
	}
	s := &liveServer{}
	if host == "" {
		host, s.where = "127.0.0.1", ", from this machine only, because "+o.Serve+" names no address"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, "", fmt.Errorf("--serve %s: %w", o.Serve, err)
	}
	s.Server = stream.NewServer(l, config, streamOf(w))
	s.open = !l.Addr().(*net.TCPAddr).IP.IsLoopback() && (config == nil || config.ClientAuth != tls.RequireAndVerifyClientCert)
	return s, "tcp://" + l.Addr().String(), nil
}

// Give gives the socket in the file system, if there is one, to the user that the process becomes.
func (s *liveServer) Give(uid, gid int) error {
	if s.local == nil {
		return nil
	}
	if err := s.local.Give(uid, gid); err != nil {
		return fmt.Errorf("--serve unix:%s: %w", s.local.Addr(), err)
	}
	return nil
}

// Summarize adds what became of the clients.
func (s *liveServer) Summarize(o *Summary) {
	a := s.Account()
	o.Clients, o.ClientsRefused, o.ClientsLost = &a.Clients, a.Refused, a.Lost
}

// streamAddress returns the HOST:PORT of a URL, and the configuration of TLS; nil = no TLS.
func streamAddress(ctx context.Context, u *url.URL, o *TLSOptions) (address string, config *tls.Config, err error) {
	if _, _, err := net.SplitHostPort(u.Host); err != nil || u.Path != "" && u.Path != "/" || u.User != nil || u.RawQuery != "" {
		return "", nil, errors.New("must be tcp://HOST:PORT")
	}
	config, err = o.config(ctx)
	return u.Host, config, err
}

// DialStream connects to a server of packets.
func DialStream(ctx context.Context, u *url.URL, o *TLSOptions) (net.Conn, error) {
	if path, ok := localsocket.Path(u.String()); ok {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	address, config, err := streamAddress(ctx, u, o)
	switch {
	case err != nil:
		return nil, err
	case config != nil:
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// openSender connects to what -w tcp://HOST:PORT names.
func openSender(t *Target, o *Options, notice func(error)) (destination, error) {
	address, config, err := streamAddress(o.Process.Signalled(), t.URL, &o.Live.TLS)
	if err != nil {
		return nil, err
	}
	s, err := stream.NewSender(address, config, notice, streamOf(o.Writer(t)))
	if err != nil {
		return nil, err
	}
	return s, nil
}
