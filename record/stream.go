package record

// Stream redacts text that arrives in pieces: a secret may begin in one piece
// and end in the next. It holds back only bytes that may be the start of a
// secret.
type Stream struct {
	r    *Redactor
	to   func([]byte)
	kept []byte
}

// Stream passes redacted pieces to a function, which must not retain them.
func (r *Redactor) Stream(to func([]byte)) *Stream { return &Stream{r: r, to: to} }

// Write redacts the next piece. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	s.kept = append(s.kept, p...)
	n := len(s.kept) - s.r.Begun(s.kept)
	for _, h := range s.r.find(s.kept) {
		switch {
		case h.to <= n || h.from >= n:
		case h.to-h.from <= s.r.longest(): // cut before it: its end may begin another
			n = h.from
		default: // the same bytes over and over
			n = h.to
		}
	}
	s.give(n)
	return len(p), nil
}

// Held returns the number of bytes that are held back.
func (s *Stream) Held() int { return len(s.kept) }

// Close passes on the bytes that were held back. If the text was cut there, the last of them may be
// the first part of a secret, and these are dropped.
func (s *Stream) Close(cut bool) {
	clean, _ := s.r.Clean(s.kept)
	if cut {
		clean = clean[:len(clean)-s.r.Begun(clean)]
	}
	if len(clean) > 0 {
		s.to(clean)
	}
	s.kept = nil
}

func (s *Stream) give(n int) {
	if n > 0 {
		clean, _ := s.r.Clean(s.kept[:n])
		s.to(clean)
		s.kept = append(s.kept[:0:0], s.kept[n:]...)
	}
}

// Begun returns the number of bytes at the end of b that may be the start of a
// secret whose rest follows or was cut off.
func (r *Redactor) Begun(b []byte) int {
	r.mu.Lock()
	k := r.known
	r.mu.Unlock()
	var m matcher
	for at := max(0, len(b)-r.longest()); at < len(b); at++ {
		for _, i := range k.at(&m, b[at:]) {
			if f := k.forms[i]; !unlike(b[at:], f) {
				if _, begun := m.match(b[at:], f); begun {
					return len(b) - at
				}
			}
		}
	}
	return 0
}

// longest bounds the length of a secret as it may be written.
func (r *Redactor) longest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 0
	for _, f := range r.known.forms {
		most = max(most, len(f.text))
	}
	return 16 * most
}
