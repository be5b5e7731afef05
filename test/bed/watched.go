package bed

import (
	"bytes"
	"regexp"
	"sync"
)

// Watched is the output of a running program.
type Watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	Want *regexp.Regexp
	Came chan struct{} // closed when the expected text has come
}

func (w *Watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.Want.Match(w.text.Bytes()) {
		select {
		case <-w.Came:
		default:
			close(w.Came)
		}
	}
	return len(p), nil
}

func (w *Watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
