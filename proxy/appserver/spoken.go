package appserver

import "hash/maphash"

// spoken is the text of an unfinished message that has been passed on, as far as
// it takes to know it again: all of it would be much for thousands of long answers
// that are read slowly.
type spoken struct {
	size int
	hash maphash.Hash
}

var seed = maphash.MakeSeed()

func newSpoken() *spoken {
	s := &spoken{}
	s.hash.SetSeed(seed)
	return s
}

func (s *spoken) add(text []byte) {
	s.size += len(text)
	s.hash.Write(text)
}

// cutFrom returns text without what was spoken, with which it must begin.
func (s *spoken) cutFrom(text []byte) (rest []byte, ok bool) {
	if len(text) < s.size || maphash.Bytes(seed, text[:s.size]) != s.hash.Sum64() {
		return nil, false
	}
	return text[s.size:], true
}
