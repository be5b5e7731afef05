package proxy

import (
	"io"
	"net/http"

	"codex-proxy/proxy/openai"
)

// wholeResponse answers at the end.
func (s *Server) wholeResponse(w http.ResponseWriter) delivery {
	return delivery{
		send:  func([]openai.ResponseEvent) error { return nil },
		begun: func() bool { return false },
		end:   func(_ []openai.ResponseEvent, whole openai.Response) error { return s.writeJSON(w, whole) },
	}
}

// streamedResponse answers in server-sent events as the turn goes on. Nothing is
// sent before the model's first word or the first keepalive, so that a failure
// until then is a real HTTP status.
func (s *Server) streamedResponse(w http.ResponseWriter, r *http.Request) delivery {
	st := &stream{w: w, control: http.NewResponseController(w), timeout: s.IdleTimeout}
	a := delivery{
		send:    st.events,
		flush:   st.flush,
		begun:   func() bool { return st.begun },
		silence: func() error { return st.send(openai.WriteKeepalive) },
		end: func(events []openai.ResponseEvent, _ openai.Response) error {
			if err := st.events(events); err != nil {
				return err
			}
			return st.flush()
		},
	}
	if keepaliveOff(r) {
		a.silence = nil
	}
	return a
}

// events writes events of a response.
func (st *stream) events(events []openai.ResponseEvent) error {
	if len(events) == 0 {
		return nil
	}
	return st.write(func(w io.Writer) error {
		for _, e := range events {
			if err := openai.WriteResponseEvent(w, e); err != nil {
				return err
			}
		}
		return nil
	})
}
