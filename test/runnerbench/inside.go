package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// question is what a part in the machine is to do.
type question struct {
	Rounds   int
	Commands [][]string // of times
	Between  []string   // a command after each of these, whose time does not count; none if it is empty
}

// inside answers one question from standard input.
func inside(ctx context.Context, name string) error {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		return err
	}
	var answer any
	var err error
	switch name {
	case "times":
		answer, err = times(ctx, q)
	case "output":
		answer, err = follow(ctx, q.Rounds)
	case "many":
		answer, err = gather(ctx, q.Rounds)
	default:
		err = errors.New("there is no such part")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// warm is the number of rounds that do not count.
const warm = 3

// times is how long each command takes, in milliseconds: all in turn, round after round.
func times(ctx context.Context, q question) ([][]float64, error) {
	took := make([][]float64, len(q.Commands))
	for round := range warm + q.Rounds {
		for i, args := range q.Commands {
			began := time.Now()
			if _, err := run(ctx, args...); err != nil {
				return nil, err
			}
			if round >= warm {
				took[i] = append(took[i], millis(time.Since(began)))
			}
			if len(q.Between) == 0 {
				continue
			}
			if _, err := run(ctx, q.Between...); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// run returns the standard output of a command.
func run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	return string(out), nil
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
