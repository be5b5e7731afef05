package workers_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

// noon is later than any reading of the workers, which know no quota.
var noon = time.Now().Add(24 * time.Hour)

// rotating is a pool of ready workers whose accounts' quota decides.
type rotating struct {
	*rig
	book *accounts.Store
	now  atomic.Pointer[time.Time]
}

func newRotating(t *testing.T, rotation accounts.Rotation, servers map[string]*appservertest.Server) *rotating {
	t.Helper()
	r := &rotating{}
	var names []string
	var ws []named
	for _, name := range []string{"a", "b", "c"} {
		if srv := servers[name]; srv != nil {
			names, ws = append(names, name), append(ws, named{name, fake(t, srv).path})
		}
	}
	policy := accounts.Policy{Rotation: rotation, Order: names, RotateAt: 0.05}
	r.book = accounts.NewStore(policy, names, r.bookChanged)
	r.rig = newRig(t, func(s *workers.Settings) { s.AccountStore, s.MaxInflight = r.book, 2 }, ws...)
	r.pool.SetClock(func() time.Time { return *r.now.Load() })
	r.at(0)
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.await(t, "each account read", func(probes.Snapshot) bool {
		return !slices.ContainsFunc(r.book.Views(noon), func(v accounts.View) bool { return v.Quota.At.IsZero() })
	})
	for _, name := range names {
		r.read(name, 0.5)
	}
	return r
}

func (r *rotating) bookChanged() {
	r.pool.Wake()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// at sets the time of the choice.
func (r *rotating) at(after time.Duration) {
	now := noon.Add(after)
	r.now.Store(&now)
}

// read takes over a reading that has used so much.
func (r *rotating) read(name string, used float64) {
	at := *r.now.Load()
	r.book.Read(name, "", accounts.Quota{
		Windows: []accounts.Window{accounts.NewWindow(300, used, at.Add(time.Hour))}, Source: accounts.Reading, At: at,
	})
}

// served is the worker that runs the request now, and "" with the reason if none does. The
// turn has ended when it returns.
func (r *rotating) served(a dispatch.Ask) (string, error) {
	lease, err := r.hold(a)
	if err != nil {
		return "", err
	}
	lease.Release()
	return lease.Worker, nil
}

func (r *rotating) hold(a dispatch.Ask) (*dispatch.Lease, error) {
	if a.Model == "" {
		a.Model = "m"
	}
	return r.pool.PickFor(a)
}

func (r *rotating) serves(t *testing.T, want string, a dispatch.Ask) {
	t.Helper()
	got, err := r.served(a)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func three() map[string]*appservertest.Server {
	return map[string]*appservertest.Server{"a": models("m"), "b": models("m"), "c": models("m")}
}

func TestOrderedUsesOneAccountUntilItIsLow(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	r.serves(t, "a", dispatch.Ask{})
	first, err := r.hold(dispatch.Ask{})
	require.NoError(t, err)
	assert.Equal(t, "a", first.Worker, "however busy")
	r.read("a", 0.96)
	r.serves(t, "b", dispatch.Ask{})
	r.read("a", 0)
	r.serves(t, "b", dispatch.Ask{})
	require.NoError(t, r.book.Switch("c"))
	r.serves(t, "c", dispatch.Ask{})
	require.NoError(t, r.book.Pause("c", true))
	r.serves(t, "a", dispatch.Ask{})
	first.Release()
}

func TestEvenUsesTheAccountWithTheMostLeft(t *testing.T) {
	r := newRotating(t, accounts.Even, three())
	r.read("b", 0.4)
	r.serves(t, "b", dispatch.Ask{})
	r.read("c", 0.3)
	r.serves(t, "c", dispatch.Ask{})
	r.book.Refuse("c", time.Time{}, noon)
	r.serves(t, "b", dispatch.Ask{})
	r.serves(t, "a", dispatch.Ask{Refused: []string{"b"}})
	r.serves(t, "a", dispatch.Ask{Accounts: []string{"a", "c"}})
}

// A full account is no reason to wait while another available one has a place, and the
// conversation returns without a rotation.
func TestFullAccountSpillsOver(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	talk := dispatch.Ask{Conversation: "1"}
	r.serves(t, "a", talk)
	for range 2 {
		lease, err := r.hold(dispatch.Ask{})
		require.NoError(t, err)
		require.Equal(t, "a", lease.Worker)
		defer lease.Release()
	}
	r.serves(t, "b", talk)
	r.book.Refuse("b", time.Time{}, noon)
	r.serves(t, "c", talk)
	r.book.Refuse("c", time.Time{}, noon)
	_, err := r.served(talk)
	assert.ErrorIs(t, err, dispatch.ErrHeld, "it has rotated, from b to c")
	_, err = r.served(dispatch.Ask{Conversation: "2"})
	assert.ErrorIs(t, err, dispatch.ErrBusy)
	assert.NotErrorIs(t, err, dispatch.ErrHeld)
}

func TestConversationStaysOnItsAccount(t *testing.T) {
	r := newRotating(t, accounts.Even, three())
	talk := dispatch.Ask{Conversation: "1"}
	r.serves(t, "a", talk)
	r.read("b", 0)
	r.serves(t, "a", talk)
	r.serves(t, "b", dispatch.Ask{Conversation: "2"})
	r.serves(t, "c", dispatch.Ask{Conversation: "3", Prefer: "c"})
	r.read("a", 0.99)
	r.serves(t, "b", talk)
	r.read("a", 0)
	r.serves(t, "b", talk)
}

func TestConversationFollowsASwitch(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	talk := dispatch.Ask{Conversation: "1"}
	r.serves(t, "a", talk)
	require.NoError(t, r.book.Switch("b"))
	r.serves(t, "b", talk)
	require.NoError(t, r.book.Switch("c"))
	r.serves(t, "b", talk)
	r.at(accounts.RotationPause)
	r.serves(t, "c", talk)
	r.serves(t, "c", dispatch.Ask{Conversation: "2", Prefer: "a"})
}

// A conversation that has just rotated waits for the rest of its minute, and neither fails
// nor runs on an account without quota.
func TestRotationsOfAConversationAreAMinuteApart(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	talk := dispatch.Ask{Model: "m", Conversation: "1", Key: "k"}
	r.serves(t, "a", talk)
	r.book.Refuse("a", time.Time{}, noon)
	r.serves(t, "b", talk)
	r.read("b", 0.96)
	r.serves(t, "b", talk)
	r.book.Refuse("b", time.Time{}, noon)
	waits := r.ask(t, talk)
	r.waits(t, 1)
	other := r.ask(t, dispatch.Ask{Model: "m", Conversation: "2", Key: "k"})
	r.awaitLease(t, other).Release()
	r.at(accounts.RotationPause)
	r.pool.Wake()
	lease := r.awaitLease(t, waits)
	assert.Equal(t, "c", lease.Worker)
	lease.Release()
}

// The next process of a reload, or after a restart, continues the pause.
func TestPauseOutlivesTheProcess(t *testing.T) {
	before := newRotating(t, accounts.Ordered, three())
	talk := dispatch.Ask{Conversation: "1"}
	before.serves(t, "a", talk)
	before.book.Refuse("a", time.Time{}, noon)
	before.serves(t, "b", talk)

	r := newRotating(t, accounts.Ordered, three())
	r.book.Restore(before.book.Save(), noon)
	r.book.Refuse("b", time.Time{}, noon)
	_, err := r.served(talk)
	assert.ErrorIs(t, err, dispatch.ErrHeld)
	r.at(accounts.RotationPause)
	r.serves(t, "c", talk)
}

// An account that the conversation waits for may come back sooner.
func TestHeldConversationReturnsToItsAccount(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	talk := dispatch.Ask{Model: "m", Conversation: "1"}
	r.serves(t, "a", talk)
	r.book.Refuse("a", time.Time{}, noon)
	r.serves(t, "b", talk)
	r.book.Refuse("b", time.Time{}, noon)
	waits := r.ask(t, talk)
	r.at(time.Second)
	r.read("b", 0.5)
	lease := r.awaitLease(t, waits)
	assert.Equal(t, "b", lease.Worker)
	lease.Release()
}

// Workers of one account at OpenAI have one quota: there is no rotation between them.
func TestSharedQuotaIsNoRotation(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	for _, name := range []string{"b", "c"} {
		r.book.Read(name, "x", accounts.Quota{
			Windows: []accounts.Window{accounts.NewWindow(300, 0.96, noon.Add(time.Hour))}, At: noon.Add(1),
		})
	}
	talk := dispatch.Ask{Conversation: "1", Accounts: []string{"b", "c"}}
	r.serves(t, "b", talk)
	full, err := r.hold(talk)
	require.NoError(t, err)
	defer full.Release()
	full, err = r.hold(talk)
	require.NoError(t, err)
	defer full.Release()
	r.serves(t, "c", talk)
	talk.Accounts = nil
	r.serves(t, "a", talk)
}

func TestAllUsedUp(t *testing.T) {
	servers := three()
	servers["c"] = models("other")
	r := newRotating(t, accounts.Ordered, servers)
	var exhausted *dispatch.ExhaustedError
	r.book.Refuse("a", noon.Add(3*time.Hour), noon)
	r.serves(t, "b", dispatch.Ask{})
	_, err := r.served(dispatch.Ask{Refused: []string{"b"}})
	require.ErrorAs(t, err, &exhausted, "c does not have the model")
	_, err = r.served(dispatch.Ask{Accounts: []string{"a"}})
	require.ErrorAs(t, err, &exhausted, "the key may use no other")
	assert.Equal(t, noon.Add(3*time.Hour), exhausted.Until)

	r.book.Refuse("b", noon.Add(2*time.Hour), noon)
	_, err = r.served(dispatch.Ask{})
	require.ErrorAs(t, err, &exhausted)
	assert.Equal(t, noon.Add(2*time.Hour), exhausted.Until, "the earliest")
	_, err = r.served(dispatch.Ask{Model: "none"})
	require.ErrorIs(t, err, dispatch.ErrNoModel)
	r.serves(t, "c", dispatch.Ask{Model: "other"})

	r.book.Invalidate("b", noon)
	_, err = r.served(dispatch.Ask{})
	require.ErrorAs(t, err, &exhausted, "a may be free again")
	assert.Equal(t, noon.Add(3*time.Hour), exhausted.Until)
	r.book.Invalidate("a", noon)
	_, err = r.served(dispatch.Ask{})
	require.ErrorIs(t, err, dispatch.ErrLogins)
	require.NoError(t, r.book.Pause("a", true))
	_, err = r.served(dispatch.Ask{})
	require.ErrorIs(t, err, dispatch.ErrLogins, "b can be logged in")
	require.NoError(t, r.book.Pause("b", true))
	_, err = r.served(dispatch.Ask{})
	require.ErrorIs(t, err, dispatch.ErrPaused)
}

// Requests that cannot be served do not wait, and a worker of an available account that
// is away is waited for.
func TestAllUsedUpWaitsForNothing(t *testing.T) {
	r := newRotating(t, accounts.Ordered, three())
	r.book.Refuse("a", time.Time{}, noon)
	r.book.Refuse("b", time.Time{}, noon)
	require.NoError(t, r.pool.DrainForStop("c", ""))
	r.book.Refuse("c", time.Time{}, noon)
	ended := r.ask(t, dispatch.Ask{Model: "m"})
	var exhausted *dispatch.ExhaustedError
	require.ErrorAs(t, (<-ended).err, &exhausted)
	assert.True(t, exhausted.Until.IsZero())
}

// Without a rotation the quota decides nothing, but which accounts may serve.
func TestRotationOff(t *testing.T) {
	r := newRotating(t, accounts.Off, three())
	r.book.Refuse("a", time.Time{}, noon)
	require.NoError(t, r.book.Pause("b", true))
	r.serves(t, "a", dispatch.Ask{Conversation: "1", Refused: []string{"a"}})
	r.serves(t, "b", dispatch.Ask{Conversation: "1", Prefer: "b"})
	r.serves(t, "c", dispatch.Ask{Accounts: []string{"c"}, Prefer: "b"})
	_, err := r.served(dispatch.Ask{Accounts: []string{}})
	assert.ErrorIs(t, err, dispatch.ErrNotReady)
	assert.Empty(t, r.pool.Snapshot().Workers[0].Out)
}

func TestSnapshotShowsWhichAccountsAreOut(t *testing.T) {
	r := newRotating(t, accounts.Even, three())
	verdict := func() probes.Reason { reason, _ := probes.ReadinessOf(r.pool.Snapshot()); return reason }
	r.book.Refuse("a", noon.Add(time.Hour), noon)
	r.book.Invalidate("b", noon)
	require.NoError(t, r.book.Pause("c", true))
	s := r.pool.Snapshot()
	assert.Equal(t, []probes.Reason{probes.QuotaExhausted, probes.LoginInvalid, probes.Draining},
		[]probes.Reason{s.Workers[0].Out, s.Workers[1].Out, s.Workers[2].Out})
	assert.Equal(t, probes.QuotaExhausted, verdict())
	require.NoError(t, r.book.Pause("c", false))
	assert.Equal(t, probes.Ready, verdict())
}

// The refusal of a restricted key holds up no other request for the model.
func TestRestrictedRequestsHoldUpNoOthers(t *testing.T) {
	r := newRotating(t, accounts.Even, three())
	var held []*dispatch.Lease
	for range 2 {
		lease, err := r.hold(dispatch.Ask{Accounts: []string{"a"}})
		require.NoError(t, err)
		held = append(held, lease)
	}
	only := r.ask(t, dispatch.Ask{Model: "m", Key: "k", Accounts: []string{"a"}, Decoding: 1})
	r.waits(t, 1)
	r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m", Key: "k", Decoding: 1})).Release()
	r.waits(t, 1)
	for _, lease := range held {
		lease.Release()
	}
	lease := r.awaitLease(t, only)
	assert.Equal(t, "a", lease.Worker)
	lease.Release()
}

// Of two standbys, the one whose account may serve the request is started.
func TestRequestStartsTheStandbyOfAnAccountWithQuota(t *testing.T) {
	order := []string{"a", "b", "c"}
	policy := accounts.Policy{Rotation: accounts.Ordered, Order: order, Warm: 1}
	book := accounts.NewStore(policy, order, func() {})
	b, c := fake(t, models("m")), fake(t, models("m"))
	r := newRig(t, func(s *workers.Settings) { s.AccountStore = book },
		named{"a", fake(t, models("m")).path}, named{"b", b.path}, named{"c", c.path})
	r.run(t)
	for _, name := range order {
		require.NoError(t, r.pool.SetRole(name, workers.Spare))
	}
	r.report(running("a", "1", 0), stopped("b", "1"), stopped("c", "1"))
	r.awaitReason(t, 0, probes.Ready)
	r.awaitReason(t, 2, probes.Standby)
	book.Refuse("a", time.Time{}, noon)
	book.Refuse("b", time.Time{}, noon)
	leased := r.ask(t, dispatch.Ask{Model: "m"})
	c.awaitAnnotations(t).Close()
	r.report(running("c", "2", 0))
	lease := r.awaitLease(t, leased)
	assert.Equal(t, "c", lease.Worker)
	lease.Release()
	c.awaitAnnotations(t).Close()
	b.idle(t)
}
