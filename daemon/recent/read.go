package recent

import "time"

// Cursor is the place up to which a reader has read. The zero value is before all.
type Cursor struct {
	read    bool
	epoch   uint64
	request uint64
	point   time.Time
}

// Requests are the last requests that have ended, oldest first.
type Requests struct {
	Requests []Request `json:"requests"`
}

// Requests returns the last requests.
func (r *Recent) Requests() Requests {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Requests{r.requests.since(0)}
}

// History returns the last half hour.
func (r *Recent) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return History{PeriodS: int(Period / time.Second), Points: published(r.points)}
}

func published(samples []sample) []Point {
	points := make([]Point, len(samples))
	for i := range samples {
		points[i] = samples[i].published()
	}
	return points
}

// Since returns the requests after the cursor, and the points that may have changed since; whole means that they are
// all that there are, and not only those that are new to the reader.
func (r *Recent) Since(c *Cursor) (requests []Request, history History, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if whole = c.epoch != r.epoch || !c.read; whole {
		*c = Cursor{read: true, epoch: r.epoch}
	}
	requests = r.requests.since(c.request)
	points := r.points
	for len(points) > 0 && points[0].At.Before(c.point) {
		points = points[1:]
	}
	history = History{PeriodS: int(Period / time.Second), Points: published(points)}
	c.request = r.number
	if len(r.points) > 0 {
		c.point = r.points[len(r.points)-1].At
	}
	return requests, history, whole
}
