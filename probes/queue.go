package probes

// Queue describes the requests that wait for a worker.
type Queue struct {
	Depth        int     `json:"depth"`
	Limit        int     `json:"limit"`
	OldestWaitMS float64 `json:"oldest_wait_ms"`
}
