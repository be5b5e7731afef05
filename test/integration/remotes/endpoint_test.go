package remotes

import (
	"maps"
	"slices"

	"codex-proxy/test/bed"
)

// down refuses new connections, and cuts the existing ones.
func down(e *bed.Endpoint) {
	e.Mu.Lock()
	_ = e.Now.Close()
	e.Now = nil
	conns := slices.Collect(maps.Keys(e.Conns))
	e.Mu.Unlock()
	for _, conn := range conns { // which take the lock
		_ = conn.Close()
	}
}

func up(e *bed.Endpoint) (err error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Now, err = e.Listen(); err == nil {
		close(e.Back)
		e.Back = make(chan struct{})
	}
	return err
}
