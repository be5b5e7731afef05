package o200k

// queue is a heap of pairs of tokens: by their rank, and by their place if the rank is the same.
type queue []uint64

func (q *queue) push(rank uint32, at int32) {
	h := append(*q, uint64(rank)<<32|uint64(at))
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent] <= h[i] {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
	*q = h
}

func (q *queue) pop() (rank uint32, at int32) {
	h := *q
	least := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[i] <= h[child] {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*q = h
	return uint32(least >> 32), int32(uint32(least))
}
