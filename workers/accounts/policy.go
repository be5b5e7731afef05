package accounts

import "time"

// Rotation is how turns are spread over accounts.
type Rotation string

// The rotations.
const (
	Off     Rotation = "off"     // the quota decides nothing
	Ordered Rotation = "ordered" // one account until it is low, then the next in order
	Even    Rotation = "even"    // the account with the most left in its windows
)

// RotationPause is the least time between two rotations of one conversation.
const RotationPause = time.Minute

// Policy is the table [accounts] of config.toml.
type Policy struct {
	Rotation Rotation
	// Order has every account, the first choice first.
	Order []string
	// Warm is how many accounts have a started worker beyond need; 0 means all.
	Warm int
	// RotateAt is the share left, from 0 to 1, at or below which an account is Low.
	RotateAt float64
	// PrewarmAt is, by the name of a window, the share left at or below which the worker of
	// the successor is started.
	PrewarmAt map[string]float64
	// IdleStop is how long a worker that is not needed stays started without a turn.
	IdleStop time.Duration
	// ReadyWhenExhausted makes /readyz answer 200 while every account is exhausted.
	ReadyWhenExhausted bool
}

// On reports whether the quota of accounts decides anything.
func (p Policy) On() bool { return p.Rotation == Ordered || p.Rotation == Even }
