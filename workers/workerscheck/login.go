package workerscheck

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"codex-proxy/internal/checkup"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
)

// login checks that each worker that needs a login has one, which is no other
// worker's.
func (r *room) login(context.Context) []checkup.Finding {
	var found []checkup.Finding
	var logins []workerLogin
	for _, w := range r.workers {
		login, f := r.loginOf(w)
		found = append(found, f)
		logins = append(logins, workerLogin{w, login})
	}
	if len(found) == 0 {
		return checkup.Unchecked("", "no worker is known", "config").Alone()
	}
	return append(found, shared(logins)...)
}

// workerLogin is the login in the home of a worker, if it has and needs one.
type workerLogin struct {
	Worker
	codexhome.StoredLogin
}

func (r *room) loginOf(w Worker) (codexhome.StoredLogin, checkup.Finding) {
	subject, none := w.Subject(), codexhome.StoredLogin{}
	switch {
	case w.file == nil:
		return none, checkup.Unchecked(subject, "its file is bad", "config")
	case !w.file.NeedsLogin():
		return none, checkup.Passed(subject, "not needed")
	case !r.IsRoot:
		return none, survey.Unprivileged(subject, "read its login")
	}
	home := w.home()
	if _, err := os.Lstat(r.Path(w.keeper() + "/auth.json")); err == nil {
		home = w.keeper()
	}
	login, err := codexhome.ReadLogin(r.Path(home))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, checkup.Failure(subject, "has no home yet, and so no login", loginRemedy(w))
	case err != nil:
		return none, Blame(subject, err, loginRemedy(w))
	case login.Login == codexhome.NoLogin:
		return none, checkup.Failure(subject, "codex is not logged in", loginRemedy(w))
	}
	return login, checkup.Passed(subject, "logged in (OpenAI was not asked whether the login still holds)")
}

// shared finds pairs of workers with one account, or even one login: a refresh token
// works once, and OpenAI then ends the login of both.
func shared(logins []workerLogin) []checkup.Finding {
	var found []checkup.Finding
	for i, second := range logins {
		for _, first := range logins[:i] {
			switch subject := "worker " + second.Name; {
			case second.Refresh != "" && second.Refresh == first.Refresh:
				text := "has a copy of the login of the worker " + first.Name +
					": the first of them to renew it ends " +
					"the other's, and perhaps both"
				found = append(found, checkup.Failure(subject, text, loginRemedy(second.Worker)))
			case second.Account != "" && second.Account == first.Account:
				text := "has the account of the worker " + first.Name + ": they use up one quota"
				found = append(found,
					checkup.Warning(subject, text, "log it in with another account: "+loginRemedy(second.Worker)))
			}
		}
	}
	return found
}

func loginRemedy(w Worker) string { return "codex-proxy accounts login " + w.Name }
