package apitest

import (
	"context"
	"time"
)

// Stuck asks until the error is want: with too little time, it has what would still answer, too.
func (r *Rig) Stuck(want string) (err error) {
	for span := 100 * time.Millisecond; span < Bound; span *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), span)
		err = r.Alive(ctx)
		cancel()
		if err == nil || err.Error() == want {
			break
		}
	}
	return err
}
