package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The last message of a request selects the answer: at once, frames at a pace, or a
// stream until the client closes.
const (
	askAnswer = "answer"
	askHold   = "hold"
	frameText = "eight by" // of a frame, about two tokens
	frameHead = "eight"    // of which no stop sequence holds back anything
)

func askFrames(n int, pace time.Duration, size int) string {
	return fmt.Sprintf("frames %d every %s size %d", n, pace, size)
}

// play sends the answer that the prompt selects.
func play(ctx context.Context, prompt string, frame func(string) error) error {
	var n, size int
	var pace string
	if prompt == askHold {
		if err := frame(frameText); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := fmt.Sscanf(prompt, "frames %d every %s size %d", &n, &pace, &size); err != nil {
		return frame("It is a fine day, and this is an answer of some twenty tokens, as short ones are.")
	}
	every, err := time.ParseDuration(pace)
	if err != nil {
		return err
	}
	text := strings.Repeat(frameText, size/len(frameText))
	tick := time.NewTicker(max(every, time.Nanosecond))
	defer tick.Stop()
	for range n {
		if every > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := frame(text); err != nil {
			return err
		}
	}
	return nil
}
