package logs

// A scrubber passes a stream on without the secrets in it: every byte that belongs to an occurrence of a value is
// left out, also where occurrences overlap. It holds bytes back as long as they may be the beginning of a value.
type scrubber struct {
	secrets *Secrets
	sink    func([]byte) error

	state   int32
	end     int64  // of the input
	window  []byte // of the input; held is its end
	from    int    // where held begins in window
	spans   []span // the occurrences in held(), apart from each other, in order
	hiding  bool   // the byte before held() belonged to an occurrence
	cleaned []byte // the output of this write
}

// A span is a part of the input, from the offset begin to the offset end.
type span struct{ begin, end int64 }

func (s *Secrets) scrubber(sink func([]byte) error) *scrubber {
	return &scrubber{secrets: s, sink: sink}
}

// write passes on the bytes that cannot be a part of a value.
func (s *scrubber) write(p []byte) error {
	for len(p) > 0 {
		if s.state == 0 {
			n := s.plain(p)
			if p = p[n:]; len(p) == 0 {
				break
			}
		}
		s.look(p[0])
		p = p[1:]
	}
	return s.flush()
}

// close passes on the bytes that write held back.
func (s *scrubber) close() error {
	s.release(len(s.held()))
	return s.flush()
}

func (s *scrubber) flush() error {
	if len(s.cleaned) == 0 {
		return nil
	}
	defer func() { s.cleaned = s.cleaned[:0] }()
	return s.sink(s.cleaned)
}

// plain passes on the first bytes of p with which no value begins, while nothing is held back, and returns their
// number.
func (s *scrubber) plain(p []byte) int {
	n := 0
	for n < len(p) && !s.secrets.begins[p[n]] {
		n++
	}
	if n > 0 {
		s.cleaned = append(s.cleaned, p[:n]...)
		s.end += int64(n)
		s.hiding = false
	}
	return n
}

// held returns the last bytes of the input, which were not passed on.
func (s *scrubber) held() []byte { return s.window[s.from:] }

// hold appends a byte of the input to held, in the same memory where possible.
func (s *scrubber) hold(b byte) {
	if len(s.window) == cap(s.window) && s.from > len(s.window)/2 {
		s.window, s.from = append(s.window[:0], s.held()...), 0
	}
	s.window = append(s.window, b)
	s.end++
}

func (s *scrubber) look(b byte) {
	s.state = s.secrets.step(s.state, b)
	s.hold(b)
	node := &s.secrets.nodes[s.state]
	if node.match > 0 {
		s.hide(span{s.end - int64(node.match), s.end})
	}
	s.release(len(s.held()) - int(node.depth))
}

// hide adds an occurrence that ends at the end of the input.
func (s *scrubber) hide(found span) {
	for last := len(s.spans) - 1; last >= 0 && s.spans[last].end >= found.begin; last-- {
		found.begin = min(found.begin, s.spans[last].begin)
		s.spans = s.spans[:last]
	}
	s.spans = append(s.spans, found)
}

// release passes on the first n bytes of held().
func (s *scrubber) release(n int) {
	for at := s.end - int64(len(s.held())); n > 0; {
		part, hide := n, false
		if len(s.spans) > 0 {
			if next := s.spans[0]; at < next.begin {
				part = min(n, int(next.begin-at))
			} else {
				part, hide = min(n, int(next.end-at)), true
			}
		}
		s.pass(part, hide)
		at += int64(part)
		n -= part
		if hide && at == s.spans[0].end {
			s.spans = s.spans[1:]
		}
	}
}

// pass takes n bytes from held(), and passes them on or hides them.
func (s *scrubber) pass(n int, hide bool) {
	switch {
	case !hide:
		s.cleaned = append(s.cleaned, s.held()[:n]...)
	case !s.hiding:
		s.cleaned = append(s.cleaned, hidden...)
	}
	s.hiding = hide
	if s.from += n; s.from == len(s.window) {
		s.window, s.from = s.window[:0], 0
	}
}
