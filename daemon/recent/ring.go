package recent

import (
	"cmp"
	"slices"
)

// ring has the last requests, up to a bound.
type ring struct {
	most int
	all  []Request // oldest first; up to most more than there are to read
}

func (r *ring) add(req Request) {
	if len(r.all) == 2*r.most {
		r.all = append(r.all[:0], r.last()...)
	}
	r.all = append(r.all, req)
}

func (r *ring) last() []Request { return r.all[max(0, len(r.all)-r.most):] }

// rings keep requests that were let in apart from those that were not: a program without a key cannot push the
// requests of others out.
type rings struct{ known, outside ring }

func newRings() rings { return rings{ring{most: maxRequests}, ring{most: maxOutside}} }

func (r *rings) add(req Request) {
	if req.Outside {
		r.outside.add(req)
		return
	}
	r.known.add(req)
}

// since returns the requests after a number, oldest first.
func (r *rings) since(number uint64) []Request {
	after := func(list []Request) []Request {
		at, _ := slices.BinarySearchFunc(list, number+1,
			func(r Request, n uint64) int { return cmp.Compare(r.Number, n) })
		return list[at:]
	}
	both := slices.Concat(after(r.known.last()), after(r.outside.last()))
	slices.SortFunc(both, func(a, b Request) int { return cmp.Compare(a.Number, b.Number) })
	return both
}
