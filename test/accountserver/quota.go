package accountserver

import (
	"math"
	"time"
)

// Quota is what an account may use.
type Quota struct {
	Plan    string   `json:"plan"`
	Windows []Window `json:"windows"` // at most two: the primary one, the secondary one
	Credits *Credits `json:"credits,omitempty"`
}

// Window is a limit in one window of time. At Resets it is empty again, and the next one begins.
type Window struct {
	Length time.Duration `json:"length"`
	Used   float64       `json:"used"` // percent
	Cost   float64       `json:"cost"` // percent that a turn uses
	Resets time.Time     `json:"resets"`
}

// Credits let an account go on when its windows are used up.
type Credits struct {
	Has       bool   `json:"has"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance"`
}

// Fresh is a quota of which nothing is used, and that turns do not use up.
func Fresh(now time.Time) Quota {
	return Quota{Plan: "pro", Windows: []Window{
		{Length: 5 * time.Hour, Resets: now.Add(5 * time.Hour)},
		{Length: 7 * 24 * time.Hour, Resets: now.Add(7 * 24 * time.Hour)}}}
}

// advance empties the windows whose reset has come.
func (q *Quota) advance(now time.Time) {
	for i := range q.Windows {
		w := &q.Windows[i]
		if w.Resets.After(now) {
			continue
		}
		w.Used, w.Resets = 0, now.Add(w.Length)
	}
}

// usedUp returns the window that is used up, the one with the latest reset of several; nil if there is none.
func (q *Quota) usedUp() *Window {
	var last *Window
	if q.Credits != nil && (q.Credits.Has || q.Credits.Unlimited) {
		return nil
	}
	for i := range q.Windows {
		if w := &q.Windows[i]; w.Used >= 100 && (last == nil || w.Resets.After(last.Resets)) {
			last = w
		}
	}
	return last
}

// charge uses up what a turn costs.
func (q *Quota) charge() {
	for i := range q.Windows {
		w := &q.Windows[i]
		w.Used = math.Min(100, w.Used+w.Cost)
	}
}

func (q *Quota) clone() Quota {
	c := *q
	c.Windows = append([]Window(nil), q.Windows...)
	if q.Credits != nil {
		credits := *q.Credits
		c.Credits = &credits
	}
	return c
}
