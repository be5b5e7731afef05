package remoteexec

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/test/accountserver"
	"codex-proxy/workers/broker"
)

// A turn runs by the login of an account that is nowhere in codex: not in its memory, its environment or its files.
func TestTurnByALentLogin(t *testing.T) {
	for _, network := range []string{"all", "none"} {
		t.Run(network, func(t *testing.T) {
			b, s := newAccountsBed(t, fmt.Sprintf("network = %q", network), "a", "b")
			s.serve()
			b.start()
			require.NoError(t, b.models.Script("text by a lent login"))
			c := b.attach()
			assert.Contains(t, c.turn("hi"), "by a lent login")
			turns, _ := s.turns("a")
			assert.Equal(t, 1, turns)

			var who struct {
				Account struct {
					Type  string `json:"type"`
					Email string `json:"email"`
					Plan  string `json:"planType"`
				} `json:"account"`
			}
			require.NoError(t, c.Call(b.bound(), "account/read", map[string]any{}, &who))
			assert.Equal(t, "chatgpt a@example.com pro", fmt.Sprint(who.Account.Type, " ", who.Account.Email, " ", who.Account.Plan))
			s.accounts.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used = 42 })
			var limits struct {
				RateLimits struct {
					Primary struct {
						Used int `json:"usedPercent"`
					} `json:"primary"`
				} `json:"rateLimits"`
			}
			require.NoError(t, c.Call(b.bound(), "account/rateLimits/read", nil, &limits))
			assert.Equal(t, 42, limits.RateLimits.Primary.Used)
			assert.Equal(t, "a", b.status("an account serves", func(st remotes.Status) bool { return st.Account != "" }).Account)

			payload := strings.Split(s.token("a"), ".")[1]
			assert.Zero(t, memory(t, b.codexProcess(), payload[:40]), "the token is in codex")
			assert.NotZero(t, memory(t, b.codexProcess(), "codex-proxy-remote"), "the stand-in is not: the search is wrong")
			out, _ := exec.Command("grep", "-rl", payload, b.dir+"/home", b.dir+"/run", b.dir+"/work").Output()
			assert.Empty(t, string(out))
			assert.NotContains(t, b.log.String(), payload)
		})
	}
}

// A turn goes on when its account has no quota any more, and the next one: within one request if nothing of an answer
// has come, and without a word to people.
func TestUsageLimitInATurn(t *testing.T) {
	for name, how := range map[string]accountserver.Refusals{
		"by its status": accountserver.ByStatus, "in the stream": accountserver.InStream, "after output": accountserver.MidText,
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newAccountsBed(t, "", "a", "b", "c")
			s.serve()
			b.start()
			c := b.attach()
			assert.NotEmpty(t, c.turn("first"))
			c.saw("")
			for _, used := range []string{"a", "b"} {
				s.accounts.Account(used).Refuse(how)
				s.accounts.Account(used).Exhaust(time.Now().Add(time.Hour))
			}
			require.NoError(t, b.models.Script("text the end"))
			var errors []string
			said := c.turnWith("second", func(method string, params json.RawMessage) {
				if method == "error" {
					errors = append(errors, string(params))
				}
			})
			assert.Contains(t, said, "the end")
			st := b.status("the turn has ended", func(st remotes.Status) bool { return len(st.Turns) == 0 })
			assert.Equal(t, "c", st.Account)
			assert.Equal(t, 2, st.Switches)
			for _, used := range []string{"a", "b"} {
				_, refused := s.turns(used)
				assert.Equal(t, 1, refused, "no request is sent to find out")
			}
			all, _ := s.turns("c")
			assert.Equal(t, 1, all)
			at := func(account string) time.Time {
				turns := s.accounts.Account(account).Record().Turns
				return turns[len(turns)-1].At
			}
			t.Logf("a to b: %s, b to c: %s", at("b").Sub(at("a")), at("c").Sub(at("b")))
			if how == accountserver.MidText {
				assert.LessOrEqual(t, len(errors), 2, "codex says that it connects again: %v", errors)
			} else {
				assert.Empty(t, errors)
			}
		})
	}
}

// A turn that no account serves waits, says until when, and goes on by itself when one has quota: no message is lost or
// comes twice, and nothing is asked of an account meanwhile.
func TestNoAccountHasQuota(t *testing.T) {
	b, s := newAccountsBed(t, "", "a", "b")
	s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	for _, account := range s.accounts.Accounts() {
		account.Exhaust(time.Now().Add(2 * time.Hour))
	}
	thread := c.startTurn("second")
	st := b.status("the turn waits", func(st remotes.Status) bool { return len(st.Turns) == 1 && st.Turns[0].Quota })
	assert.Equal(t, "No account has quota", st.NoAccount)
	assert.WithinDuration(t, time.Now().Add(2*time.Hour), st.QuotaAt, time.Minute)
	c.until("the thread says so", waitsForQuota)
	require.NoError(t, b.models.Script("text the end"))
	s.renew("b")
	c.until("the turn goes on", func(m string, params string) bool {
		return m == "item/completed" && strings.Contains(params, "the end")
	})
	st = b.status("the turn has ended", func(st remotes.Status) bool { return len(st.Turns) == 0 })
	assert.Equal(t, "b", st.Account)
	assert.Empty(t, st.NoAccount)
	_, refused := s.turns("a")
	assert.Equal(t, 1, refused)
	all, refused := s.turns("b")
	assert.Equal(t, []int{2, 1}, []int{all, refused})
	assert.Equal(t, 1, strings.Count(fmt.Sprint(c.messages(thread)), "second"))
}

// waitsForQuota reports whether a notification has what the thread says of a turn that waits for quota.
func waitsForQuota(method, params string) bool {
	return method == "item/completed" && strings.Contains(params, "goes on by itself when an account has quota")
}

// A restart leaves a turn that waits for quota waiting, and a person's message takes its place.
func TestATurnThatWaitsForQuota(t *testing.T) {
	b, s := newAccountsBed(t, "", "a")
	s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	s.accounts.Account("a").Exhaust(time.Now().Add(2 * time.Hour))
	thread := c.startTurn("second")
	waits := func(st remotes.Status) bool { return len(st.Turns) == 1 && st.Turns[0].Quota && st.Codex != "" }
	b.status("the turn waits", waits)
	c.until("the thread says so", waitsForQuota)
	b.stop()
	b.start()
	b.status("it still waits", waits)
	before, _ := s.turns("a")
	s.renew("a")
	require.NoError(t, b.models.Script("text the end"))
	b.status("it goes on", func(st remotes.Status) bool { return st.Codex != "" && len(st.Turns) == 0 })
	after, _ := s.turns("a")
	assert.Equal(t, before+1, after)
	c = b.attach()
	assert.Equal(t, 1, strings.Count(fmt.Sprint(c.messages(thread)), "second"))
}

// Without a rotation, too, nothing is asked of an account while a turn waits for its quota, also after a restart; a
// person may try.
func TestATurnThatWaitsWithoutARotation(t *testing.T) {
	b, s := newAccountsBed(t, "", "a", "b")
	s.off = true
	s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	s.accounts.Account("a").Exhaust(time.Now().Add(2 * time.Hour))
	thread := c.startTurn("second")
	c.until("the thread says so", waitsForQuota)
	s.awaitQuestions(b, 2)
	b.stop()
	b.start()
	s.awaitQuestions(b, 2)
	_, refused := s.turns("a")
	assert.Equal(t, 1, refused, "no request is sent to find out")
	b.status("it still waits", func(st remotes.Status) bool {
		return len(st.Turns) == 1 && st.Turns[0].Quota && st.NoAccount == "No account has quota"
	})
	c = b.attach()
	other := c.startTurn("third")
	c.until("the other thread says so, too", waitsForQuota)
	s.awaitQuestions(b, 1)
	_, refused = s.turns("a")
	assert.Equal(t, 2, refused, "a person has tried")

	s.renew("a")
	b.status("both go on", func(st remotes.Status) bool { return st.NoAccount == "" && len(st.Turns) == 0 })
	all, refused := s.turns("a")
	assert.Equal(t, []int{5, 2}, []int{all, refused})
	assert.Equal(t, 1, strings.Count(fmt.Sprint(c.messages(thread)), "second"))
	assert.Equal(t, 1, strings.Count(fmt.Sprint(c.messages(other)), "third"))
	all, _ = s.turns("b")
	assert.Zero(t, all)
}

// A token that has expired is replaced within the request. A login that is refused ends the turn with the remedy, and
// moves nothing to another account.
func TestRefusedLogins(t *testing.T) {
	b, s := newAccountsBed(t, "", "a", "b")
	s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	s.accounts.Account("a").Expire()
	assert.NotEmpty(t, c.turn("second"))
	s.mu.Lock()
	s.dead["a"] = true
	s.mu.Unlock()
	s.accounts.Account("a").Invalidate()
	var failed []string
	c.turnWith("third", func(method string, params json.RawMessage) {
		if method == "error" {
			failed = append(failed, string(params))
		}
	})
	require.Len(t, failed, 1)
	assert.Contains(t, failed[0], "codex-proxy accounts login a")
	all, _ := s.turns("b")
	assert.Zero(t, all)
	assert.Equal(t, "the login of account a is invalid: codex-proxy accounts login a",
		b.status("", func(remotes.Status) bool { return true }).NoAccount)
	s.mu.Lock()
	delete(s.dead, "a")
	s.mu.Unlock()
	s.accounts.Account("a").Validate()
	assert.NotEmpty(t, c.turn("fourth"))
}

// Without codex-proxy.service a remote goes on with the login that it has, and starts without one.
func TestWithoutTheService(t *testing.T) {
	b, s := newAccountsBed(t, "", "a", "b")
	stop := s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	stop()
	assert.NotEmpty(t, c.turn("second"))
	b.stop()
	b.start() // in openBound
	s.serve()
	b.status("an account serves", func(st remotes.Status) bool { return st.NoAccount == "" })
	c = b.attach()
	assert.NotEmpty(t, c.turn("third"))
}

// Between turns the account changes when the service says so.
func TestSwitchBetweenTurns(t *testing.T) {
	b, s := newAccountsBed(t, "", "a", "b")
	s.serve()
	b.start()
	c := b.attach()
	assert.NotEmpty(t, c.turn("first"))
	s.mu.Lock()
	s.used["a"] = time.Now().Add(time.Hour)
	s.mu.Unlock()
	s.Tell(func(string, broker.Ask) bool { return true })
	st := b.status("another account serves", func(st remotes.Status) bool { return st.Account == "b" })
	assert.Equal(t, 1, st.Switches)
	s.accounts.Account("b").Change(func(q *accountserver.Quota) { q.Windows[0].Used = 17 })
	assert.NotEmpty(t, c.turn("second"))
	s.mu.Lock()
	assert.Contains(t, s.readings[len(s.readings)-1], `b {"limitId":"codex","primary":{"usedPercent":17,"windowDurationMins":300,`)
	s.mu.Unlock()
	all, _ := s.turns("b")
	assert.Equal(t, 1, all)
	b.status("", func(remotes.Status) bool {
		var who struct {
			Account struct {
				Email string `json:"email"`
			} `json:"account"`
		}
		require.NoError(t, c.Call(b.bound(), "account/read", map[string]any{}, &who))
		return who.Account.Email == "b@example.com"
	})
}
