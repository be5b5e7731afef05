package accounts

// Candidate is one account as the choice sees it. Candidates are in the order of the policy.
type Candidate struct {
	Name string // of the account's worker
	// Quota identifies the quota; candidates of one account at OpenAI have the same.
	Quota string
	State State
	// Paused means that an operator keeps new turns away.
	Paused bool
	// Left is the least share left in any window, from 0 to 1. Limitless means that no
	// window is known, as of an API key, a demo worker or before the first reading; then
	// Left has no meaning.
	Left      float64
	Limitless bool
	// Load is how many turns are in flight on the worker.
	Load int
	// InUse means that the rotation is Ordered and the account is the one in use.
	InUse bool
	// Affinity means that the conversation's thread and prompt cache are on this account.
	Affinity bool
	// Place is whether the worker is ready, has the model and has a free place now, as far
	// as it is known: a candidate that turns out to have none is excluded, and the choice is
	// made again.
	Place bool
}

// Serves reports whether turns may run on the account.
func (c Candidate) Serves() bool { return c.State.Serves() && !c.Paused }

// Available reports whether the account serves and is not low.
func (c Candidate) Available() bool { return c.Serves() && c.State != Low }

// CandidateOf is the account of the view, without the fields that only its worker knows.
func CandidateOf(v *View) Candidate {
	return Candidate{
		Name: v.Name, Quota: v.QuotaID, State: v.State, Paused: v.Paused, Left: v.Left,
		Limitless: len(v.Quota.Windows) == 0, InUse: v.InUse,
	}
}
