package doctor

import (
	"context"

	"codex-proxy/internal/checkup"
	"codex-proxy/units/survey"
)

// checkDatabase returns the check that the running service uses the database that several hosts share.
func checkDatabase(s *service) func(context.Context) []checkup.Finding {
	return func(context.Context) []checkup.Finding { return judgeDatabase(s) }
}

func judgeDatabase(s *service) []checkup.Finding {
	if s.config == nil || s.config.Database.Address.IsZero() {
		return checkup.OrPassed(nil, "none is configured")
	}
	server, database := s.config.Database.Address.Server(), s.Report.Database
	switch {
	case s.ReportErr != nil && !s.IsRoot:
		return []checkup.Finding{survey.Unprivileged(server, "ask the service about it")}
	case s.ReportErr != nil:
		return []checkup.Finding{checkup.Unchecked(server, "the service does not answer", "workers")}
	case database == nil:
		return []checkup.Finding{checkup.Failure(server, "the running service does not use it",
			"codex-proxy database join, then systemctl restart codex-proxy")}
	case database.Away:
		return []checkup.Finding{checkup.Failure("", database.Sentence(),
			"codex-proxy database check; systemctl status codex-proxy-database.socket codex-proxy-database.service")}
	}
	return checkup.OrPassed(nil, server+" answers")
}
