package cli

import (
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// clientMetrics are about the clients of --serve, and missing without it.
func clientMetrics() (all []metrics.Metric[captureReading]) {
	for _, m := range []struct {
		name, help string
		gauge      bool
		of         func(*stream.ServerAccount) float64
	}{
		{"xdpcap_connected_clients", "Clients of --serve that there are.", true,
			func(a *stream.ServerAccount) float64 { return float64(a.Connected) }},
		{"xdpcap_clients_total", "Connections that --serve has let in.", false,
			func(a *stream.ServerAccount) float64 { return float64(a.Clients) }},
		{"xdpcap_clients_refused_total", "Connections that --serve has not let in: there were as many as it has room for, or their TLS handshake failed.", false,
			func(a *stream.ServerAccount) float64 { return float64(a.Refused) }},
		{"xdpcap_clients_lost_packets_total", "Packets that clients of --serve were too slow for, of all of them together.", false,
			func(a *stream.ServerAccount) float64 { return float64(a.Lost) }},
	} {
		all = append(all, metrics.Metric[captureReading]{
			Name: m.name, Help: m.help, Gauge: m.gauge,
			Values: func(c captureReading, send metrics.SendValue) {
				if c.clients != nil {
					send(m.of(c.clients))
				}
			},
		})
	}
	return all
}
