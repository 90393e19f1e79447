package main

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// tcpTime is how long a connection sends, as fast as it can.
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
		all = append(all, p.tool(run.name, ring, xdp.Pass, strings.Fields("-i "+rxName+" "+run.args)...))
	}
	return all
}

// A tcpPair is a veth pair with a listener at its receiving side.
type tcpPair struct {
	*testnet.Pair
	listener net.Listener
}

func newTCPPair(t testnet.TB) *tcpPair {
	p := &tcpPair{Pair: testnet.MustPair(t, testnet.PairOptions{RxName: rxName, Addresses: true})}
	testnet.Must(t, p.Rx.Do(func() (err error) {
		p.listener, err = net.Listen("tcp4", net.JoinHostPort(testnet.RxEndpoint.IPv4.String(), "0"))
		return err
	}))
	t.Cleanup(func() { p.listener.Close() })
	return p
}

// send returns the bytes per second that a connection transfers.
func (p *tcpPair) send(t testnet.TB) (rate float64) {
	var to net.Conn
	testnet.Must(t, p.Tx.Do(func() (err error) {
		to, err = net.Dial("tcp4", p.listener.Addr().String())
		return err
	}))
	defer to.Close()
	from, err := p.listener.Accept()
	testnet.Must(t, err)
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
	took := time.Since(begin)
	if err == io.EOF {
		err = nil
	}
	testnet.Must(t, errors.Join(err, <-sent))
	return float64(received) / took.Seconds()
}

// measureTCP measures the part of its rate that a TCP connection keeps beside a tool at the
// receiving interface. Sender, receiver and tool share all CPUs, as on a host with containers.
// Before each connection beside a tool there is one without.
func (b *bench) measureTCP(t testnet.TB) {
	none, beside := newTCPPair(t), newTCPPair(t)
	rows := []*row{{name: overTCP(noneName), measure: func(t testnet.TB) *benchfmt.Result {
		return measured(1, of(none.send(t), unitBytesSecond), of(1, unitKeeps))
	}}}
	add := func(p *program, tool tool) {
		rows = append(rows, &row{name: overTCP(tool.name), command: tool.commandLine(), of: p,
			measure: func(t testnet.TB) *benchfmt.Result { return b.besideTCP(t, none, beside, tool) }})
	}
	for i := range b.programs[0].tcpTools() {
		for _, p := range b.programs {
			add(p, p.tcpTools()[i])
		}
	}
	for _, other := range pick(others(), tcpdumpName, dumpcapName) {
		add(nil, other)
	}
	b.measure(t.Context(), b.fewRounds, rows)
}

// besideTCP measures a connection while a tool runs.
func (b *bench) besideTCP(t testnet.TB, none, beside *tcpPair, tool tool) *benchfmt.Result {
	p := startProcess(t, beside.Rx, tool, allCPUs)
	var rates, parts []float64
	for range b.bursts {
		without, with := none.send(t), beside.send(t)
		rates, parts = append(rates, with), append(parts, with/without)
	}
	p.end()
	return measured(b.bursts, of(median(rates), unitBytesSecond), of(median(parts), unitKeeps))
}
