package proxy

type route struct {
	method, path string
	handler      func()
}

func (s *Server) api(handler func()) func() { return handler }

func (s *Server) fail() {}
