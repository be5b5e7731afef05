package openai

import (
	"encoding/json"
	"fmt"
)

// Limits on stop: the number of sequences is that of the OpenAI reference, which has no
// limit on their length.
const (
	maxStops    = 4
	maxStopSize = 1 << 10 // bytes of one sequence
)

// readStop reads the stop sequences: a string, or a list of strings. null, an empty list
// and an empty string are none.
func readStop(raw json.RawMessage) ([]string, error) {
	var one string
	var list boundedList[json.RawMessage]
	switch {
	case len(raw) == 0:
		return nil, nil
	case unmarshal(raw, &one) == nil: // null, too
		if one == "" {
			return nil, nil
		}
		return []string{one}, checkStop("stop", one)
	case unmarshal(raw, &list) != nil:
		return nil, Invalid("invalid_type", "stop", "stop must be a string or a list of strings")
	case len(list) > maxStops:
		return nil, Invalid("invalid_value", "stop",
			fmt.Sprintf("stop must not hold more than %d sequences", maxStops))
	}
	sequences := make([]string, len(list))
	for i, value := range list {
		at := fmt.Sprintf("stop[%d]", i)
		if string(value) == "null" || unmarshal(value, &sequences[i]) != nil {
			return nil, Invalid("invalid_type", at, at+" must be a string")
		}
		if err := checkStop(at, sequences[i]); err != nil {
			return nil, err
		}
	}
	return sequences, nil
}

func checkStop(at, sequence string) error {
	switch {
	case sequence == "":
		return Invalid("invalid_value", at, at+" must not be empty: the answer would end before its first word")
	case len(sequence) > maxStopSize:
		return Invalid("invalid_value", at, fmt.Sprintf("%s must not be longer than %d bytes", at, maxStopSize))
	}
	return nil
}
