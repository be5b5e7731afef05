package remotescheck

import (
	"context"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/checkup"
	"codex-proxy/remotes/hands"
	"codex-proxy/runner/client"
	"codex-proxy/units/survey"
)

// judgeHands asks the hands on another host for a handshake.
func (r *room) judgeHands(ctx context.Context, d distant) []checkup.Finding {
	h := d.file.Hands
	if h == nil || h.URL == "" || !r.IsRoot {
		return nil
	}
	authorities := h.CAFile
	if authorities != "" {
		authorities = r.Path(authorities)
	}
	token, err := hands.ReadTokenFile(r.Path(h.TokenFile))
	if err != nil {
		return checkup.Failure(d.subject(), err.Error(), "correct "+h.TokenFile).Alone()
	}
	at, err := hands.NewElsewhere(h.URL, token, authorities)
	if err != nil {
		return checkup.Failure(d.subject(), err.Error(), "correct [hands] in "+d.file.File).Alone()
	}
	ctx, cancel := context.WithTimeout(ctx, survey.AnswerLimit)
	defer cancel()
	server, err := at.Ask(ctx)
	if err != nil {
		return checkup.Failure(d.subject(), "its hands at "+h.URL+" do not answer: "+err.Error(),
			"look at the exec-server, and at what is in front of it, on that host").Alone()
	}
	if versions.Older(server.Version, client.OldestExecServer) {
		return checkup.Failure(d.subject(), "the codex of its hands is "+server.Version+", and too old",
			"npm install -g @openai/codex@latest there").Alone()
	}
	if standing := versions.Standing(server.Version); standing != "" {
		return checkup.Warning(d.subject(), "the codex "+server.Version+" of its hands is "+standing,
			"install a newer codex-proxy").Alone()
	}
	return nil
}
