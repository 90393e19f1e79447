package read

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// findFiles replaces directories by the capture files in them, and patterns that the shell has not
// expanded by the files that match.
func findFiles(names []string) (all []string, err error) {
	for _, name := range names {
		found := []string{name}
		info, statErr := os.Stat(name)
		switch {
		case statErr == nil && info.IsDir():
			if found, err = filesIn(name); err != nil {
				return nil, err
			}
		case errors.Is(statErr, os.ErrNotExist) && strings.ContainsAny(name, "*?["):
			if matches, err := filepath.Glob(name); err == nil && matches != nil {
				found = matches
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// filesIn returns the capture files in a directory, ordered by name.
func filesIn(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && outputs.IsCaptureName(e.Name()) {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%s has no capture files: no name in it ends in .pcapng, .pcap, .gz or .zst", dir)
	}
	return all, nil
}

// disorder is the most by which a packet may be earlier than one before it in its file, or later
// than the file's modification time.
const disorder = 10 * time.Second

// inPeriod returns the files that may have packets in the period, by the times of their first and
// last packets. If the end of a file cannot be read without the rest, its modification time is the
// upper bound. A file whose times are unknown is included. inPeriod also sets the date of moments
// that have none, to the day on which the last file begins, and notes the times of the other files
// for period.missed.
func (in *readInputs) inPeriod(p *period) (files []file.InputFile) {
	spans := make([]*capfile.Span, len(in.files))
	memory, latest := new(capfile.Memory), int64(0)
	for i, f := range in.files {
		if spans[i] = spanOf(f, memory); spans[i] != nil {
			latest = max(latest, spans[i].First)
		}
	}
	if latest != 0 {
		p.setDay(time.Unix(0, latest))
	}
	for i, f := range in.files {
		s := spans[i]
		if s == nil || p.overlaps(time.Unix(0, s.First).Add(-disorder), time.Unix(0, s.Last).Add(disorder)) {
			files = append(files, f)
			continue
		}
		if p.addTime(s.First); s.HasLast {
			p.addTime(s.Last)
		} else {
			p.unread = true
		}
	}
	return files
}

// spanOf returns the times of the first and last packets of a file, or nil if they are unknown.
func spanOf(f file.InputFile, memory *capfile.Memory) *capfile.Span {
	opened, ok := regular(f)
	if !ok {
		return nil
	}
	info, err := opened.Stat()
	if err != nil {
		return nil
	}
	s, err := capfile.SpanOf(opened, info.Size(), f.Name, memory)
	if err == nil && !s.HasLast {
		s.Last = info.ModTime().UnixNano()
	}
	if err != nil || s.Last < s.First { // reading the file reports the error
		return nil
	}
	return &s
}

// regular returns the regular file of an input. Standard input is none, because it may begin in the
// middle of a file.
func regular(f file.InputFile) (opened *os.File, ok bool) {
	opened, ok = f.In.(*os.File)
	return opened, ok && f.Name != frame.StdinName
}

// sayChosen prints the names of the files that inPeriod has chosen of all. If it has chosen none,
// period.missed has a message.
func sayChosen(p *frame.Process, chosen []file.InputFile, all int) {
	if len(chosen) == all || len(chosen) == 0 {
		return
	}
	const maxNames = 3
	var names []string
	for _, f := range chosen[:min(len(chosen), maxNames)] {
		names = append(names, f.Name)
	}
	if len(chosen) > maxNames {
		names = append(names, "...")
	}
	frame.Say(p.Stderr, "%d of %d files may have packets of this time: %s", len(chosen), all, strings.Join(names, ", "))
}
