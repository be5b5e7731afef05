package doctor

import (
	"context"
	"errors"
	"io/fs"

	"codex-proxy/workers/codexhome"
)

// checkLogin checks that each worker that needs a login has one, which is no other
// worker's.
func checkLogin(_ context.Context, s *survey) []Finding {
	var found []Finding
	var logins []workerLogin
	for _, w := range s.workers {
		login, f := s.login(w)
		found = append(found, f)
		logins = append(logins, workerLogin{w, login})
	}
	if len(found) == 0 {
		return []Finding{unchecked("", "no worker is known", "config")}
	}
	return append(found, shared(logins)...)
}

// workerLogin is the login in the home of a worker, if it has and needs one.
type workerLogin struct {
	worker
	codexhome.StoredLogin
}

func (s *survey) login(w worker) (codexhome.StoredLogin, Finding) {
	subject, none := "worker "+w.name, codexhome.StoredLogin{}
	switch {
	case w.file == nil:
		return none, unchecked(subject, "its file is bad", "config")
	case !w.file.NeedsLogin():
		return none, ok(subject, "not needed")
	case !s.IsRoot:
		return none, unprivileged(subject, "read its login")
	}
	login, err := codexhome.ReadLogin(s.path(home(w.name)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, fail(subject, "has no home yet, and so no login", loginRemedy(w))
	case err != nil:
		return none, blame(subject, err, loginRemedy(w))
	case login.Login == codexhome.NoLogin:
		return none, fail(subject, "codex is not logged in", loginRemedy(w))
	}
	return login, ok(subject, "logged in (OpenAI was not asked whether the login still holds)")
}

// shared finds pairs of workers with one account, or even one login: a refresh token
// works once, and OpenAI then ends the login of both.
func shared(logins []workerLogin) []Finding {
	var found []Finding
	for i, second := range logins {
		for _, first := range logins[:i] {
			switch subject := "worker " + second.name; {
			case second.Refresh != "" && second.Refresh == first.Refresh:
				text := "has a copy of the login of the worker " + first.name +
					": the first of them to renew it ends " +
					"the other's, and perhaps both"
				found = append(found, fail(subject, text, loginRemedy(second.worker)))
			case second.Account != "" && second.Account == first.Account:
				text := "has the account of the worker " + first.name + ": they use up one quota"
				found = append(found,
					warn(subject, text, "log it in with another account: "+loginRemedy(second.worker)))
			}
		}
	}
	return found
}

func loginRemedy(w worker) string { return "codex-proxy accounts login " + w.name }
