// Package stopsequence cuts a text that arrives in pieces off at the first stop sequence
// in it. It is pure.
package stopsequence

import "strings"

// Cutter cuts one text. Create it with New; nil cuts nothing. It belongs to one goroutine.
type Cutter struct {
	sequences []string
	first     [256]bool // the bytes with which a sequence begins
	held      string    // the longest end of the text that begins a sequence
	met       string    // the sequence at the cut
}

// New creates the cutter of a text. It returns nil without sequences, none of which may be empty. Sequences of valid
// UTF-8 split no character of a text unless a piece splits one.
func New(sequences []string) *Cutter {
	if len(sequences) == 0 {
		return nil
	}
	c := &Cutter{sequences: sequences}
	for _, s := range sequences {
		c.first[s[0]] = true
	}
	return c
}

// Write adds a piece of the text, and returns the text that can be sent now: all of it but an end that may be the
// beginning of a sequence, at most a byte less than the longest one. Once the text holds a whole sequence, cut is true
// and the text ends before it. Of several sequences the one that is complete first counts; of those that end at the
// same byte, the longest. Nothing may be written after the cut.
func (c *Cutter) Write(piece string) (text string, cut bool) {
	if c == nil {
		return piece, false
	}
	if c.held != "" {
		piece, c.held = c.held+piece, ""
	}
	whole, end, begun := c.find(piece)
	if whole >= 0 {
		c.met = piece[whole:end]
		return piece[:whole], true
	}
	c.held = piece[begun:]
	return piece[:begun], false
}

// find returns where the sequence begins and ends in text that is complete first, or -1, and
// where the longest end of text begins that is the beginning of a sequence, or len(text). It
// compares only where the first byte of a sequence stands: most pieces have none.
func (c *Cutter) find(text string) (whole, end, begun int) {
	whole, end, begun = -1, len(text)+1, len(text)
	for at := 0; at < min(end, len(text)); at++ {
		if !c.first[text[at]] {
			continue
		}
		for _, s := range c.sequences {
			switch {
			case s[0] != text[at]:
			case strings.HasPrefix(text[at:], s):
				if at+len(s) < end { // a later one that ends there is shorter
					whole, end = at, at+len(s)
				}
			case begun == len(text) && strings.HasPrefix(s, text[at:]):
				begun = at
			}
		}
	}
	return whole, end, begun
}

// Met is the sequence before which the text was cut off; empty: it was not.
func (c *Cutter) Met() string {
	if c == nil {
		return ""
	}
	return c.met
}

// Rest is the end of the text that Write has held back, to be sent when the text has ended.
func (c *Cutter) Rest() (text string) {
	if c != nil {
		text, c.held = c.held, ""
	}
	return text
}
