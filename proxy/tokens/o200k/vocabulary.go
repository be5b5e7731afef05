package o200k

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"fmt"
	"hash/maphash"
	"io"
)

//go:embed o200k_base.flate
var packed []byte

const (
	size    = 199_998 // tokens, with the ranks 0 to size-1
	bytes1  = 256     // tokens of one byte
	longest = 128     // bytes of a token
	// slots is the size of the hash table.
	slots = 1 << 18
	// rankBits are the bits of a slot that hold a rank; the others hold a part of the hash.
	rankBits = 18
)

// none is the rank of a text that is no token.
const none = ^uint32(0)

// vocabulary finds the rank of a token.
type vocabulary struct {
	text []byte   // all tokens, in the order of their ranks
	ends []uint32 // of the tokens in text
	seed maphash.Seed
	// slots is a hash table with linear probing. An empty slot is 0, others hold the rank + 1 and the highest bits of
	// the hash.
	slots []uint32
}

// load unpacks the vocabulary.
func load() (*vocabulary, error) {
	merges, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the vocabulary: %w", err)
	}
	n := size - bytes1
	if len(merges) != 6*n {
		return nil, fmt.Errorf("the vocabulary has %d bytes, not %d", len(merges), 6*n)
	}
	v := &vocabulary{
		text: make([]byte, 0, 1_397_670), ends: make([]uint32, 0, size), seed: maphash.MakeSeed(),
		slots: make([]uint32, slots),
	}
	for rank := range bytes1 {
		v.add(firstBytes[rank : rank+1])
	}
	left, right := merges[:3*n], merges[3*n:]
	rank := func(planes []byte, i int) uint32 {
		return uint32(planes[i]) | uint32(planes[n+i])<<8 | uint32(planes[2*n+i])<<16
	}
	for i := range n {
		a, b := rank(left, i), rank(right, i)
		if next := uint32(len(v.ends)); a >= next || b >= next {
			return nil, fmt.Errorf("token %d of the vocabulary is made of later ones", next)
		}
		v.add(v.token(a), v.token(b))
	}
	return v, nil
}

// firstBytes are the tokens of one byte in the order of their ranks: printable ones are first.
var firstBytes = func() (list []byte) {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad }
	for b := range bytes1 {
		if printable(b) {
			list = append(list, byte(b))
		}
	}
	for b := range bytes1 {
		if !printable(b) {
			list = append(list, byte(b))
		}
	}
	return list
}()

// add adds the token with the next rank.
func (v *vocabulary) add(parts ...[]byte) {
	from := len(v.text)
	for _, part := range parts {
		v.text = append(v.text, part...)
	}
	v.ends = append(v.ends, uint32(len(v.text)))
	hash := maphash.Bytes(v.seed, v.text[from:])
	at := hash % slots
	for v.slots[at] != 0 {
		at = (at + 1) % slots
	}
	v.slots[at] = uint32(hash>>(32+rankBits))<<rankBits | uint32(len(v.ends))
}

func (v *vocabulary) token(rank uint32) []byte {
	from := uint32(0)
	if rank > 0 {
		from = v.ends[rank-1]
	}
	return v.text[from:v.ends[rank]]
}

// rank is the rank of a text, or none.
func (v *vocabulary) rank(text string) uint32 {
	if len(text) > longest {
		return none
	}
	hash := maphash.String(v.seed, text)
	tag := uint32(hash >> (32 + rankBits))
	for at := hash % slots; v.slots[at] != 0; at = (at + 1) % slots {
		slot := v.slots[at]
		if rank := slot&(1<<rankBits-1) - 1; slot>>rankBits == tag && string(v.token(rank)) == text {
			return rank
		}
	}
	return none
}
