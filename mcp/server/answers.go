package server

import (
	"maps"
	"sync"
	"time"
)

// mostAnswers is the maximum number of answers that are remembered until they expire.
const mostAnswers = 100_000

// answers remembers which states of questions were used, until they expire. A session knows its
// calls, but anonymous requests have a session each.
type answers struct {
	mu   sync.Mutex
	used map[string]time.Time // when the state expires
}

// take marks the answer to a question as used. first reports whether it was not used before. It fails
// if there are too many.
func (l *answers) take(a *asked, now time.Time) (first bool, err error) {
	key := a.Call + "\x00" + a.Binds
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, is := l.used[key]; is && now.Before(until) {
		return false, nil
	}
	if len(l.used) >= mostAnswers {
		maps.DeleteFunc(l.used, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	if len(l.used) >= mostAnswers {
		return false, busy("too many questions are answered")
	}
	if l.used == nil {
		l.used = map[string]time.Time{}
	}
	l.used[key] = a.Expiry
	return true, nil
}
