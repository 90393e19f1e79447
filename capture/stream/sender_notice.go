package stream

import (
	"fmt"
	"time"
)

const (
	// noticeInterval is how often the state is checked for changes.
	noticeInterval = 250 * time.Millisecond
	// After the first notice of a kind, further events are reported as counts: after a minute, and
	// then after twice as long each time, up to an hour. If no event occurs for calmTime, the next
	// one is reported at once again.
	firstSilence, lastSilence = time.Minute, time.Hour
	calmTime                  = 10 * time.Minute
)

// A senderState is the state of a Sender that its notices report.
type senderState struct {
	connected bool
	ends      int    // connections that have ended
	why       error  // the error that ended the last one
	notTaken  uint64 // packets
}

// A senderNotices turns changes of state into notices. The first event of each kind is reported at
// once.
type senderNotices struct {
	name     string
	reported senderState   // the state at the last notice
	at       time.Time     // time of the last notice
	silence  time.Duration // the pause until the next notice with counts

	// These were reported: the end of a connection, a new connection, a peer that is too slow.
	ended, again, slow bool
}

func newSenderNotices(name string) *senderNotices {
	return &senderNotices{name: name, reported: senderState{connected: true}, silence: firstSilence}
}

// notify gives notices until the session ends.
func (s *Sender) notify() {
	n := newSenderNotices("tcp://" + s.address)
	ticker := time.NewTicker(noticeInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-s.feed.ended: // later losses are in the final account
			ended = true
		}
		if notice := n.next(time.Now(), s.stateNow()); notice != nil {
			s.notice(notice)
		}
	}
}

func (s *Sender) stateNow() senderState {
	notTaken := s.feed.takenNow().Total().NotTaken
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.notTaken = notTaken
	return state
}

// next returns the notice for a state at this time, or nil if no notice is due.
func (n *senderNotices) next(now time.Time, s senderState) (notice error) {
	fell, lost := s.ends > n.reported.ends, s.notTaken > n.reported.notTaken
	if !fell && !lost && s.connected == n.reported.connected {
		if now.Sub(n.at) >= calmTime {
			*n = senderNotices{name: n.name, reported: s, silence: firstSilence}
		}
		return nil
	}
	switch {
	case fell && !n.ended:
		n.ended = true
		notice = fmt.Errorf("%s: the connection has ended, and packets are not sent until there is a new one: %w", n.name, s.why)
	case !fell && s.connected && !n.reported.connected && !n.again:
		n.again = true
		notice = fmt.Errorf("%s: reconnected; %d packets not sent so far", n.name, s.notTaken)
	case !fell && s.connected && lost && !n.slow:
		n.slow = true
		notice = fmt.Errorf("%s: the peer reads too slowly; %d packets not sent so far", n.name, s.notTaken)
	case now.Sub(n.at) < n.silence:
		return nil
	default:
		n.silence = min(2*n.silence, lastSilence)
		is := "is"
		if !s.connected {
			is = "is not"
		}
		notice = fmt.Errorf("%s: %s connected; the connection has ended %d times, and %d packets were not sent so far", n.name, is, s.ends, s.notTaken)
	}
	if fell { // if there is already a new connection, the next call reports that
		s.connected = false
	}
	n.reported, n.at = s, now
	return notice
}
