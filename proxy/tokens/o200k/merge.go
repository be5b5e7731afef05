package o200k

// maxPiece bounds a piece: a longer one is cut. A cut may add a token to the count, and bounds the memory of a merger.
const maxPiece = 16 << 10

// merger counts the tokens of a piece by byte pair encoding: of all pairs of adjacent tokens that are a token together,
// the one with the lowest rank is merged first, of several the leftmost one. It takes O(n log n) time, and 36 bytes for
// each byte of the piece.
type merger struct {
	words *vocabulary
	piece string
	// A token is known by its first byte's place. Of the others only their place in between is known.
	next, last []int32  // place of the next token and of the one before
	ranks      []uint32 // of the token together with the next one, or none
	queue      queue
}

// count is the number of tokens of a piece of at most maxPiece bytes.
func (m *merger) count(piece string) int64 {
	if len(piece) <= 1 || m.words.rank(piece) != none {
		return 1
	}
	m.begin(piece)
	tokens := int64(len(piece))
	for len(m.queue) > 0 {
		rank, at := m.queue.pop()
		if m.ranks[at] == rank { // its token has not been merged since
			m.merge(at)
			tokens--
		}
	}
	m.piece = "" // it is a part of a whole text, which would stay
	return tokens
}

// begin makes each byte a token.
func (m *merger) begin(piece string) {
	n := len(piece)
	m.piece, m.queue = piece, m.queue[:0]
	if cap(m.next) < n {
		m.next, m.last, m.ranks = make([]int32, n), make([]int32, n), make([]uint32, n)
	}
	m.next, m.last, m.ranks = m.next[:n], m.last[:n], m.ranks[:n]
	for at := range n {
		m.next[at], m.last[at] = int32(at)+1, int32(at)-1
	}
	for at := range n {
		m.pair(int32(at))
	}
}

// merge merges a token with the next one.
func (m *merger) merge(at int32) {
	gone := m.next[at]
	m.ranks[gone] = none
	m.next[at] = m.next[gone]
	if m.next[at] < int32(len(m.piece)) {
		m.last[m.next[at]] = at
	}
	m.pair(at)
	if m.last[at] >= 0 {
		m.pair(m.last[at])
	}
}

// pair computes the rank of a token together with the next one.
func (m *merger) pair(at int32) {
	m.ranks[at] = none
	next := m.next[at]
	if next == int32(len(m.piece)) {
		return
	}
	if rank := m.words.rank(m.piece[at:m.next[next]]); rank != none {
		m.ranks[at] = rank
		m.queue.push(rank, at)
	}
}
