package accounts

// State is what the quota of an account means for the choice of a worker. The vocabulary
// is closed: metrics, alerts and the command line use it.
type State string

// The states of an account.
const (
	// Available means that more than RotateAt is left in every window, or that the login
	// has no windows, such as an API key.
	Available State = "available"
	// Low means that at most RotateAt is left in a window: the account serves turns only
	// if no available one can.
	Low State = "low"
	// Exhausted means that a window is used up, or that the model endpoint refused a turn
	// for the account's quota. A later reading ends it, never the time of a reset alone.
	Exhausted State = "exhausted"
	// LoginInvalid means that the account's server does not accept the login any more. An
	// operator has to log the worker in.
	LoginInvalid State = "login_invalid"
	// Unknown means that nothing was read of the account yet. It serves turns.
	Unknown State = "unknown"
)

// States are all states.
var States = []State{Available, Low, Exhausted, LoginInvalid, Unknown}

// Serves reports whether turns may run on an account in this state.
func (s State) Serves() bool { return s != Exhausted && s != LoginInvalid }
