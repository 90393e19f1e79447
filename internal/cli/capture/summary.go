package capture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/message"
)

// A Summary is the object that --json prints at the end and at SIGUSR1. docs/json.md documents its
// keys.
type Summary struct {
	AccountKeys                   // of all sources together
	Duration    float64           `json:"duration_s"`
	Transport   string            `json:"transport,omitempty"`
	Interfaces  []SourceSummary   `json:"interfaces"`
	Earlier     *earlier          `json:"earlier,omitempty"` // gone sources that are not among Interfaces
	Outputs     []outputs.Summary `json:"outputs,omitempty"` // where there are several
	CompanionKeys
	Notices        []string `json:"notices,omitempty"`
	NoticesOmitted uint64   `json:"notices_omitted,omitempty"` // because there were many like them
	Error          string   `json:"error,omitempty"`
}

// SourceSummary is one source with its own account.
type SourceSummary struct {
	Interface string `json:"interface"`           // or the hook map's path
	Namespace string `json:"namespace,omitempty"` // of the Kubernetes pod that the interface belongs to
	Pod       string `json:"pod,omitempty"`
	Hook      string `json:"hook"`
	Mode      string `json:"mode,omitempty"` // at the hooks xdp, ingress and egress
	Program   string `json:"program,omitempty"`
	ProgramID uint32 `json:"program_id,omitempty"`

	Filter string `json:"filter,omitempty"` // with --reload-filter: the filter of its packets

	Gone  bool       `json:"gone,omitempty"`  // the interface or the filter has gone, and the account is final
	Clock *clockKeys `json:"clock,omitempty"` // the card's
	AccountKeys
}

// outputSummaries returns the summaries of several outputs. The account of a single output is that
// of the whole capture, so its summary is returned only if it has other keys, too. Without accounts
// there are no summaries.
func (r *captureRun) outputSummaries(byOutput []capture.Accounts) (all []outputs.Summary) {
	if byOutput == nil {
		return nil
	}
	for i, out := range r.Outputs {
		a := byOutput[i].Total()
		s, hasOtherKeys := out.Summary(&a)
		if hasOtherKeys || len(r.Outputs) > 1 {
			all = append(all, s)
		}
	}
	return all
}

// writeOutputs prints the account of each of several outputs.
func (r *captureRun) writeOutputs(byOutput []capture.Accounts) {
	for _, s := range r.outputSummaries(byOutput) {
		frame.Say(r.text, "%s", s)
	}
}

// AccountKeys are the keys of an account.
type AccountKeys struct {
	capture.Account
	Pending uint64 `json:"pending,omitempty"`
}

func newAccountKeys(a capture.Account) AccountKeys { return AccountKeys{a, a.Pending()} }

func newSourceSummary(src *capture.Source, a capture.Account) SourceSummary {
	s := SourceSummary{
		Interface: src.Name, Namespace: src.Pod.Namespace, Pod: src.Pod.Name, Hook: src.Hook.String(), AccountKeys: newAccountKeys(a),
	}
	switch src.Hook {
	case capture.XDP:
		s.Mode = src.Mode.String()
	case capture.Ingress, capture.Egress:
		s.Mode = src.Attached
	}
	s.Program, s.ProgramID, s.Filter = src.Target.Name, src.Target.ID, src.Filter
	return s
}

// printSummary prints the object of --json. Its numbers are those of the first output's accounts; 0
// without accounts. failed is the error of the capture; nil = none.
func (r *captureRun) printSummary(byOutput []capture.Accounts, failed error) error {
	var accounts capture.Accounts
	if len(byOutput) > 0 {
		accounts = byOutput[0]
	}
	s := Summary{Interfaces: []SourceSummary{}, Outputs: r.outputSummaries(byOutput), Notices: r.notices.texts, NoticesOmitted: r.notices.left()}
	if r.session != nil {
		s.Duration = time.Since(r.started).Seconds()
		s.Transport = r.session.Options().Transport.String()
		sources := r.session.Sources()
		clocks, gone := r.session.CardClocks(), r.session.Gone()
		atEnd := r.accounts != nil
		own, past := r.divide(accounts, sources, atEnd) // past is of forgotten sources
		if past.Sources > 0 {
			s.Earlier = &past
		}
		for i := range sources {
			one := newSourceSummary(&sources[i], own.Of(i))
			if i < len(clocks) {
				one.Clock = newClockKeys(clocks[i])
			}
			one.Gone = slices.Contains(gone, i)
			s.Interfaces = append(s.Interfaces, one)
		}
	}
	s.AccountKeys = newAccountKeys(accounts.Total())
	s.CompanionKeys = r.counted.CompanionKeys
	if failed != nil {
		s.Error = strings.Join(frame.Messages(failed), "; ")
	}
	if err := r.o.json.begin(); err != nil { // it has begun unless the capture failed to start
		return err
	}
	if err := message.NewJSONEncoder(r.objects).Encode(s); err != nil {
		return fmt.Errorf("--json=%s: %w", r.o.json.file, err)
	}
	return nil
}
