package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// tcpTime is how long a connection sends as much as it can.
const tcpTime = 500 * time.Millisecond

// Names of the rows of a TCP connection.
const (
	noneName    = "no capture"
	tcName      = "xdpcap --at tc"
	nativeName  = "xdpcap --at xdp, native"
	genericName = "xdpcap --at xdp, generic"
)

var tcpNames = []string{noneName, tcName, nativeName, genericName, tcpdumpName, dumpcapName}

func overTCP(entrant string) string { return named("TCP", entrant) }

// tcpTools returns the runs of xdpcap beside which a TCP connection is measured.
func (p *program) tcpTools() (all []tool) {
	for _, run := range []struct{ name, args string }{
		{tcName, "--at tc"}, {nativeName, "--xdp-mode native"}, {genericName, "--xdp-mode generic"},
	} {
		t := p.tool(run.name, ring, xdp.Pass, append([]string{"-i", rxName}, strings.Fields(run.args)...)...)
		if flag, _, _ := strings.Cut(run.args, " "); !strings.Contains(p.help, flag) {
			t.missing = "this xdpcap has no " + flag
		}
		all = append(all, t)
	}
	return all
}

// A tcpPair is a veth pair with a listener at its receiving side.
type tcpPair struct {
	*testnet.Pair
	listener net.Listener
}

func newTCPPair(opened *closers) (*tcpPair, error) {
	pair, err := testnet.NewPair(testnet.PairOptions{RxName: rxName, Addresses: true})
	if err != nil {
		return nil, err
	}
	opened.later(pair.Close)
	p := &tcpPair{Pair: pair}
	err = pair.Rx.Do(func() (err error) {
		p.listener, err = net.Listen("tcp4", net.JoinHostPort(testnet.RxEndpoint.IPv4.String(), "0"))
		return err
	})
	if err == nil {
		opened.later(p.listener.Close)
	}
	return p, err
}

// send returns the bytes per second that a connection transfers.
func (p *tcpPair) send() (rate float64, err error) {
	var to net.Conn
	err = p.Tx.Do(func() (err error) {
		to, err = net.Dial("tcp4", p.listener.Addr().String())
		return err
	})
	if err != nil {
		return 0, err
	}
	defer to.Close()
	from, err := p.listener.Accept()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	begin := time.Now()
	sent := make(chan error, 1)
	go func() {
		data := make([]byte, 256<<10)
		err := to.SetWriteDeadline(begin.Add(tcpTime))
		for err == nil {
			_, err = to.Write(data)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		sent <- errors.Join(err, to.Close())
	}()
	received := 0
	for data := make([]byte, 256<<10); err == nil; {
		var n int
		n, err = from.Read(data)
		received += n
	}
	if err == io.EOF {
		err = nil
	}
	return float64(received) / time.Since(begin).Seconds(), errors.Join(err, <-sent)
}

// measureTCP measures what a TCP connection keeps of its rate beside a tool at the receiving
// interface. Sender, receiver and tool share all CPUs, as on a host with containers. Before each
// connection beside a tool there is one without.
func (b *bench) measureTCP(ctx context.Context) (err error) {
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	none, err := newTCPPair(&opened)
	if err != nil {
		return fmt.Errorf("network for TCP: %w", err)
	}
	beside, err := newTCPPair(&opened)
	if err != nil {
		return fmt.Errorf("network for TCP: %w", err)
	}
	rows := []*row{{name: overTCP(noneName), measure: func(context.Context) (*benchfmt.Result, error) {
		rate, err := none.send()
		return measured(1, of(rate, bytesSecond), of(1, keeps)), err
	}}}
	add := func(p *program, t tool) {
		rows = append(rows, &row{name: overTCP(t.name), command: t.commandLine(), of: p,
			measure: func(ctx context.Context) (*benchfmt.Result, error) { return b.besideTCP(ctx, none, beside, t) }})
	}
	for i := range b.programs[0].tcpTools() {
		for _, p := range b.programs {
			add(p, p.tcpTools()[i])
		}
	}
	for _, t := range pick(others(), tcpdumpName, dumpcapName) {
		add(nil, t)
	}
	b.measure(ctx, b.fewRounds, rows)
	return nil
}

// besideTCP measures a connection while a tool runs.
func (b *bench) besideTCP(ctx context.Context, none, beside *tcpPair, t tool) (line *benchfmt.Result, err error) {
	p, err := startProcess(ctx, beside.Rx, t, allCPUs)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, endErr := p.end()
		err = errors.Join(err, endErr)
	}()
	var rates, parts []float64
	for range b.bursts {
		without, err := none.send()
		if err != nil {
			return nil, err
		}
		with, err := beside.send()
		if err != nil {
			return nil, err
		}
		rates, parts = append(rates, with), append(parts, with/without)
	}
	return measured(b.bursts, of(median(rates), bytesSecond), of(median(parts), keeps)), ctx.Err()
}
