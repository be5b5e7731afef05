// Package proxyorders has the orders of the page of `codex-proxy console`: fourteen verbs, sixteen at most.
package proxyorders

import (
	"context"
	"slices"
	"strings"

	"codex-proxy/console/verbs"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// Settings configure the orders.
type Settings struct {
	Client *control.Client
	// Doctor examines the installation, and returns the object of `codex-proxy doctor --json`.
	Doctor func(context.Context) (any, error)
	// AddKey makes an API key with limits, and returns it; RevokeKey removes one. A key may be returned with an error:
	// then it is in the file, and the running service does not have it.
	AddKey    func(ctx context.Context, name string, limits map[string]string) (KeyChange, error)
	RevokeKey func(ctx context.Context, name string) (KeyChange, error)
	// Remote returns the remote with that name.
	Remote func(name string) (Remote, error)
}

// Remote is how a person follows a remote and takes part.
type Remote interface {
	// Follow calls each with each change of a thread; without a thread, of the last one.
	Follow(ctx context.Context, thread string, each func(any) error) error
	Send(ctx context.Context, thread, text string) (threadID string, err error)
	Approve(ctx context.Context, thread, question, decision string) error
	Interrupt(ctx context.Context, thread string) error
}

// KeyChange is the outcome of an order about a key.
type KeyChange struct {
	Key     string `json:"key,omitempty"` // a new one
	Outcome string `json:"outcome"`       // for people
}

// The words. A key that is there may have any name that the key file accepts; new ones have the narrower form.
var (
	key      = verbs.Match(`[A-Za-z0-9_.-]{1,64}`)
	number   = verbs.Match(`[1-9][0-9]{0,11}`)
	list     = verbs.Match(`[a-z]{1,16}(,[a-z]{1,16}){0,7}`)
	days     = verbs.Match(`[1-9][0-9]{0,2}d`)
	thread   = verbs.Match(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	question = verbs.Match(`[0-9a-f]{32}`)
	decision = verbs.Match(`accept|acceptForSession|decline`)
)

// words are the forms of the words of a verb.
type words = map[string]verbs.Form

// All returns all verbs.
func All(s Settings) map[string]verbs.Verb {
	all := map[string]verbs.Verb{
		"watch":   {Words: words{"of": list}, Needs: []string{"of"}, Run: s.watch},
		"usage":   {Words: words{"since": days, "by": list}, Needs: []string{"since", "by"}, Run: s.usage},
		"doctor":  {Run: verbs.OneAtATime(s.Doctor)},
		"drain":   s.worker(s.Client.Drain),
		"undrain": s.worker(s.Client.Undrain),
		"pause":   s.account(control.PauseAccount),
		"resume":  s.account(control.ResumeAccount),
		"switch":  s.account(control.SwitchAccount),
		"revoke":  {Changes: true, Words: words{"key": key}, Needs: []string{"key"}, Run: s.revoke},
		"add": {Changes: true, Needs: []string{"key"}, Run: s.add, Words: words{
			"key": verbs.Name, "requests-per-minute": number, "tokens-per-minute": number, "tokens-per-day": number,
			"concurrent": number,
		}},
	}
	for name, verb := range s.remotes() {
		all[name] = verb
	}
	return all
}

func (s Settings) account(do control.AccountAction) verbs.Verb {
	return verbs.Verb{Changes: true, Words: words{"account": verbs.Name}, Needs: []string{"account"},
		Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
			return s.Client.OrderAccount(ctx, control.AccountOrder{Account: w["account"], Do: do})
		}}
}

func (s Settings) worker(do func(context.Context, control.Request) (probes.Report, error)) verbs.Verb {
	return verbs.Verb{Changes: true, Words: words{"worker": verbs.Name}, Needs: []string{"worker"},
		Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
			return do(ctx, control.Request{Worker: w["worker"]})
		}}
}

func (s Settings) watch(ctx context.Context, w verbs.Words, send verbs.Send) (any, error) {
	return nil, s.Client.Follow(ctx, strings.Split(w["of"], ","), func(raw []byte) error {
		return send(rawJSON(slices.Clone(raw)))
	})
}

// rawJSON is a value in JSON.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
