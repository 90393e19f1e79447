package stream

import (
	"fmt"
	"time"
)

const (
	// tellInterval is how often the state is checked for something to give notice of.
	tellInterval = 250 * time.Millisecond
	// What a notice has said before is repeated as counts: after a minute, and then after twice as
	// long each time, up to an hour. When nothing has happened for calmTime, the next event is told
	// at once again.
	firstSilence, lastSilence = time.Minute, time.Hour
	calmTime                  = 10 * time.Minute
)

// A senderState is what a Sender gives notices about.
type senderState struct {
	connected bool
	ends      int    // connections that have ended
	why       error  // why the last one ended
	notTaken  uint64 // packets
}

// A senderTeller turns changes of state into notices. Each kind of event is told at once the first
// time.
type senderTeller struct {
	name    string
	told    senderState // the state at the last notice
	at      time.Time   // time of the last notice
	silence time.Duration

	ended, again, slow bool // these kinds of events were told
}

func newSenderTeller(name string) *senderTeller {
	return &senderTeller{name: name, told: senderState{connected: true}, silence: firstSilence}
}

// tell gives notices until the session ends.
func (s *Sender) tell() {
	t := newSenderTeller("tcp://" + s.address)
	ticker := time.NewTicker(tellInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-s.feed.ended: // the final account says the rest
			ended = true
		}
		if notice := t.look(time.Now(), s.stateNow()); notice != nil {
			s.notice(notice)
		}
	}
}

// stateNow is the state at this moment.
func (s *Sender) stateNow() senderState {
	notTaken := s.feed.takenNow().Total().NotTaken
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.notTaken = notTaken
	return state
}

// look returns the notice that a state needs at this time; nil = none.
func (t *senderTeller) look(now time.Time, s senderState) (notice error) {
	fell, lost := s.ends > t.told.ends, s.notTaken > t.told.notTaken
	if !fell && !lost && s.connected == t.told.connected {
		if now.Sub(t.at) >= calmTime {
			*t = senderTeller{name: t.name, told: s, silence: firstSilence}
		}
		return nil
	}
	switch {
	case fell && !t.ended:
		t.ended = true
		notice = fmt.Errorf("%s: the connection has ended, and packets are not sent until there is a new one: %w", t.name, s.why)
	case !fell && s.connected && !t.told.connected && !t.again:
		t.again = true
		notice = fmt.Errorf("%s: reconnected; %d packets not sent so far", t.name, s.notTaken)
	case !fell && s.connected && lost && !t.slow:
		t.slow = true
		notice = fmt.Errorf("%s: the peer reads too slowly; %d packets not sent so far", t.name, s.notTaken)
	case now.Sub(t.at) < t.silence:
		return nil
	default:
		t.silence = min(2*t.silence, lastSilence)
		is := "is"
		if !s.connected {
			is = "is not"
		}
		notice = fmt.Errorf("%s: %s connected; the connection has ended %d times, and %d packets were not sent so far", t.name, is, s.ends, s.notTaken)
	}
	if fell { // if there is already a new connection, the next notice says so
		s.connected = false
	}
	t.told, t.at = s, now
	return notice
}
