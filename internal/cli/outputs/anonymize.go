package outputs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/anonymize"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// anonymizeOptions have the key by which addresses are replaced.
type anonymizeOptions struct {
	file string         // "" = addresses stay
	key  *anonymize.Key // nil before ReadKey
}

// Anonymizes reports whether the addresses of packets are replaced.
func (o *Options) Anonymizes() bool { return o.anonymize.file != "" }

// checkAnonymize refuses an output that sends this host's address with its packets.
func (o *Options) checkAnonymize() error {
	if o.Anonymizes() && o.WritesTo(SFlowScheme) {
		return errors.New("--anonymize and -w sflow://: every datagram has this host's own address: write a file, or omit --anonymize")
	}
	return nil
}

// ReadKey reads the key of --anonymize. It is called before anything is attached, and before the
// process becomes another user.
func (o *Options) ReadKey() (err error) {
	if !o.Anonymizes() {
		return nil
	}
	if strings.HasPrefix(o.anonymize.file, "-") {
		return fmt.Errorf("--anonymize %s: that is a flag: name the file of a key, as in --anonymize key %[1]s", o.anonymize.file)
	}
	text, err := frame.ReadSecret(o.Process.UntilSignal(), o.anonymize.file)
	const makeKey = "to make one: (umask 77; head -c 32 /dev/urandom > %s)"
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--anonymize: %w; "+makeKey, err, message.ShellWord(o.anonymize.file))
	}
	if err != nil {
		return fmt.Errorf("--anonymize: %w", err)
	}
	if o.anonymize.key, err = anonymize.ParseKey(text); err != nil {
		return fmt.Errorf("--anonymize: key %s: %w; "+makeKey, o.anonymize.file, err, "key")
	}
	return nil
}

// Anonymized returns the input, or with --anonymize an input of its packets with other addresses.
func (o *Options) Anonymized(in capture.Input) capture.Input {
	if o.anonymize.key == nil {
		return in
	}
	return anonymize.NewInput(in, o.anonymize.key)
}
