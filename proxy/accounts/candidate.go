package accounts

// Candidate is one account as the choice sees it.
type Candidate struct {
	Name string // of the account's worker
	// Quota identifies the quota; candidates of one account at OpenAI have the same.
	Quota string
	State State
	// Left is the least share left in any window, from 0 to 1; 1 if there are none.
	Left float64
	// Load is how many turns are in flight on the worker.
	Load int
	// Affinity means that the conversation's thread and prompt cache are on this account.
	Affinity bool
	// Place is whether the worker is ready, has the model and has a free place now.
	Place bool
}
