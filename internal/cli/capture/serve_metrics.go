package capture

import (
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// clientMetrics are about the clients of --serve. Without --serve they are missing.
func clientMetrics() (all []metrics.Metric[captureReading]) {
	for _, m := range []struct {
		name, help string
		gauge      bool
		of         func(*stream.ServerAccount) float64
	}{
		{"xdpcap_connected_clients", "Clients that are connected to --serve.", true,
			func(a *stream.ServerAccount) float64 { return float64(a.Connected) }},
		{"xdpcap_clients_total", "Connections that --serve has accepted.", false,
			func(a *stream.ServerAccount) float64 { return float64(a.Clients) }},
		{"xdpcap_clients_refused_total", "Connections that --serve refused, because it had no room for them, they were of other users, or their TLS handshake failed.", false,
			func(a *stream.ServerAccount) float64 { return float64(a.Refused) }},
		{"xdpcap_clients_lost_packets_total", "Packets that all clients of --serve together lost, because they were too slow.", false,
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
