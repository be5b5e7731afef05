package accounts

import "time"

// View is the known state of one account at one time. Callers must not change its slices.
type View struct {
	Name string
	// QuotaID identifies the account at OpenAI; empty if that is not known. Shared are the
	// other accounts with the same.
	QuotaID string
	Shared  []string
	Login   Login
	Quota   Quota
	State   State
	// Until is when an exhausted account may have quota again; zero if that is not known.
	Until time.Time
	// Left is the least share left in any window, from 0 to 1; 1 without windows.
	Left   float64
	Paused bool
	// InUse means that the account serves while the rotation is Ordered.
	InUse bool
}

// similar reports whether nothing differs that a decision rests on.
func (v View) similar(o View) bool {
	return v.Name == o.Name && v.QuotaID == o.QuotaID && v.State == o.State && v.Paused == o.Paused &&
		v.InUse == o.InUse && v.Quota.RefusedAt.Equal(o.Quota.RefusedAt) && v.Quota.DoubtedAt.Equal(o.Quota.DoubtedAt)
}

// Views are the accounts in order.
func (b *Store) Views(now time.Time) []View {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.look(now)
}

// View is one account; false means that none has the name.
func (b *Store) View(name string, now time.Time) (View, bool) {
	for _, v := range b.Views(now) {
		if v.Name == name {
			return v, true
		}
	}
	return View{}, false
}
