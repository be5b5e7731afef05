package remotes

import "fmt"

// Continue is the setting `continue`: whether a cut turn goes on by itself.
type Continue string

// The values of Continue.
const (
	Always Continue = "always" // at most Options.Limit times a turn
	Ask    Continue = "ask"    // a user decides: `remotes continue` has it go on, a new message leaves it
	Never  Continue = "never"
)

// ParseContinue reads the setting. Empty means Always.
func ParseContinue(text string) (Continue, error) {
	switch c := Continue(text); c {
	case "":
		return Always, nil
	case Always, Ask, Never:
		return c, nil
	}
	return "", fmt.Errorf("%q is not one of %q, %q, %q", text, Always, Ask, Never)
}
