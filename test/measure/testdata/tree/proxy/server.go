package proxy

// Server is told which limit to apply; the log says so.
type Server struct {
	limit int
	last  request
}

// Routes returns the route table.
func (s *Server) Routes() []route {
	return []route{
		{"POST", "/v1/chat/completions", s.api(s.chat)},
		{"GET", "/v1/models", s.models},
	}
}

func (s *Server) chat() { s.begin("he said it"); s.fail() }

func (s *Server) models() { s.fail() }
