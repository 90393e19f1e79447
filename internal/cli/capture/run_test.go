package capture

import (
	"net/url"
	"testing"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// Only a capture that has nothing else to do reads and writes on one CPU in turn.
func TestUsesOneCPU(t *testing.T) {
	t.Parallel()
	series, err := outputs.NewFinished(nil, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := outputs.NewFinished(nil, "true", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*captureRun){
		"":           func(*captureRun) {},
		"-C":         func(r *captureRun) { r.Finished = series },
		"compressed": func(r *captureRun) { r.o.Targets[0].Compression = file.Zstd },
		"a stream":   func(r *captureRun) { r.o.Targets[0].URL = &url.URL{Scheme: "tcp"} },
		"two files": func(r *captureRun) {
			r.o.Targets, r.Outputs = append(r.o.Targets, outputs.Target{}), append(r.Outputs, outputs.Named{})
		},
		"and --serve": func(r *captureRun) { r.Outputs = append(r.Outputs, outputs.Named{}) },
		"--print":     func(r *captureRun) { r.o.Print = true },
		"--ring":      func(r *captureRun) { r.recorder = new(recorder.Recorder) },
		"-z":          func(r *captureRun) { r.Finished = commands },
		"--listen":    func(r *captureRun) { r.exporter = new(metrics.Exporter) },
		"printed":     func(r *captureRun) { r.o.Targets, r.Outputs = nil, nil },
	} {
		r := &captureRun{o: new(Options)}
		r.o.Targets, r.Outputs = make([]outputs.Target, 1), make([]outputs.Named, 1)
		change(r)
		if got := r.usesOneCPU(); got != (name == "" || name == "-C") {
			t.Errorf("%q: %v", name, got)
		}
	}
}
