package outputs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// liveOptions are the flags for live streams of packets over TCP.
type liveOptions struct {
	Serve  string      // address, "" = none
	Format file.Format // of the packets that are sent
	TLS    TLSOptions
}

// Flags are the rows of the flags.
func (o *liveOptions) Flags() []frame.Flag {
	return append([]frame.Flag{{Name: "serve", Value: (*frame.Name)(&o.Serve), Settings: frame.ExposesData,
		Help: "send packets to every client that connects to this `address`: unix:PATH is a socket for its owner alone, :PORT is for root and you on this machine, such as wireshark -i TCP@127.0.0.1:PORT, and HOST:PORT, without TLS, for whoever can reach it; --format pcap is for those that read no pcapng"}},
		o.TLS.flags()...)
}

// IsLocal reports whether clients connect to a socket in the file system.
func (o *liveOptions) IsLocal() bool {
	_, ok := frame.SocketPath(o.Serve)
	return ok
}

// A liveServer is the destination of --serve.
type liveServer struct {
	*stream.Server
	local     *localListener      // nil = it listens on an address
	peers     *machine.PeerFinder // finds the users of clients; nil = there is no rule about users
	where     string              // a message's words about the clients that may connect
	elsewhere bool                // it listens in the network namespace of --netns or --pod
	secure    bool                // it uses TLS
	notice    error               // that users other than the capture's owners may connect; nil = they may not
}

// streamOf converts the options of a file into those of a stream.
func streamOf(w file.Options) stream.Options {
	return stream.Options{PCAP: w.Format == file.PCAP, Application: w.Application, CommandLine: w.CommandLine, Comments: w.Comments, Immediate: w.Immediate}
}

// openServer listens before a program is attached, and before the process becomes another user.
func (d *Destinations) openServer(ctx context.Context, w file.Options) (_ *liveServer, name string, err error) {
	o := &d.Flags.Live
	config, err := o.TLS.config(ctx)
	if err != nil {
		return nil, "", err
	}
	if path, ok := frame.SocketPath(o.Serve); ok {
		l, err := listenLocally(path)
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
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, loopback), port))
	if err != nil {
		return nil, "", fmt.Errorf("--serve %s: %w", o.Serve, err)
	}
	s, options := &liveServer{elsewhere: d.Flags.Process.IsElsewhere()}, streamOf(w)
	if err := s.admit(l, d, &options); err != nil { // sets s.peers, s.where and options.Peer
		l.Close()
		return nil, "", fmt.Errorf("--serve %s: %w", o.Serve, err)
	}
	if config == nil || config.ClientAuth != tls.RequireAndVerifyClientCert {
		s.notice = openTo(o.Serve, host, l.Addr().(*net.TCPAddr).IP)
	}
	s.Server, s.secure = stream.NewServer(l, config, options), config != nil
	return s, "tcp://" + l.Addr().String(), nil
}

// Close also closes the finder of the clients' users, which may be nil.
func (s *liveServer) Close() error {
	return errors.Join(s.Server.Close(), s.peers.Close())
}

// Give implements frame.Giver for the socket in the file system.
func (s *liveServer) Give(uid, gid int) error {
	if s.local == nil {
		return nil
	}
	if err := s.local.give(uid, gid); err != nil {
		return fmt.Errorf("--serve unix:%s: %w", s.local.Addr(), err)
	}
	return nil
}

// Summarize adds the counts of clients.
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
	if path, ok := frame.SocketPath(u.String()); ok {
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

// openSender connects to the receiver of a -w tcp://HOST:PORT.
func openSender(t *Target, o *Options, notice func(error)) (destination, error) {
	address, config, err := streamAddress(o.Process.UntilSignal(), t.URL, &o.Live.TLS)
	if err != nil {
		return nil, err
	}
	s, err := stream.NewSender(address, config, notice, streamOf(o.Writer(t)))
	if err != nil {
		return nil, err
	}
	if config == nil && !isLoopback(t.URL.Hostname()) {
		notice(fmt.Errorf("-w %s: whoever is on the way there can read and change the packets: add --tls-ca ca.pem, with which both sides use TLS, or send them by ssh", t.Name))
	}
	return s, nil
}

// isLoopback reports whether a host is certainly this one.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
