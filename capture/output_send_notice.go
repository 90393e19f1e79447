package capture

import (
	"fmt"
	"time"
)

const (
	// tellInterval is how often it is looked whether there is something to tell.
	tellInterval = 250 * time.Millisecond
	// What was told before is told again as counts: a minute later, and then after twice as long
	// each time, up to an hour. It is new again when nothing has happened for calmTime.
	firstSilence, lastSilence = time.Minute, time.Hour
	calmTime                  = 10 * time.Minute
)

// A senderState is what the user of a Sender is told of.
type senderState struct {
	connected bool
	ends      int    // connections that have ended
	why       error  // the last one
	notTaken  uint64 // packets
}

// A senderTeller makes notices of states. What happens for the first time is told at once.
type senderTeller struct {
	name    string
	told    senderState // with what was seen last
	at      time.Time   // of the last notice
	silence time.Duration

	ended, again, slow bool // were told of
}

func newSenderTeller(name string) *senderTeller {
	return &senderTeller{name: name, told: senderState{connected: true}, silence: firstSilence}
}

// tell tells notices until the session ends.
func (s *Sender) tell() {
	t := newSenderTeller("tcp://" + s.address)
	ticker := time.NewTicker(tellInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-s.feed.ended: // the account says the rest
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

// look returns what is to be told of a state at this time; nil = nothing.
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
		notice = fmt.Errorf("%s: the connection has ended, packets are not taken until there is another one: %w", t.name, s.why)
	case !fell && s.connected && !t.told.connected && !t.again:
		t.again = true
		notice = fmt.Errorf("%s: connected again; %d packets were not taken so far", t.name, s.notTaken)
	case !fell && s.connected && lost && !t.slow:
		t.slow = true
		notice = fmt.Errorf("%s: the other end reads too slowly; %d packets were not taken so far", t.name, s.notTaken)
	case now.Sub(t.at) < t.silence:
		return nil
	default:
		t.silence = min(2*t.silence, lastSilence)
		is := "is"
		if !s.connected {
			is = "is not"
		}
		notice = fmt.Errorf("%s: %s connected; the connection has ended %d times and %d packets were not taken so far", t.name, is, s.ends, s.notTaken)
	}
	if fell { // and if there is another one already, that is told next
		s.connected = false
	}
	t.told, t.at = s, now
	return notice
}
