package delivery

import "hash/maphash"

// deliveredText identifies the text of an unfinished message that has been delivered, by its length and hash: the
// texts themselves would take much memory for thousands of long answers that are read slowly.
type deliveredText struct {
	size int
	hash maphash.Hash
}

var seed = maphash.MakeSeed()

func newDeliveredText() *deliveredText {
	d := &deliveredText{}
	d.hash.SetSeed(seed)
	return d
}

func (d *deliveredText) add(text []byte) {
	d.size += len(text)
	d.hash.Write(text)
}

// cutFrom returns text without its delivered beginning. ok is false if text begins differently.
func (d *deliveredText) cutFrom(text []byte) (rest []byte, ok bool) {
	if len(text) < d.size || maphash.Bytes(seed, text[:d.size]) != d.hash.Sum64() {
		return nil, false
	}
	return text[d.size:], true
}
