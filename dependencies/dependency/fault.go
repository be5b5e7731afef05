package dependency

import "fmt"

// misfit is the fault of a value.
type misfit struct {
	key, text string
}

func (m *misfit) Error() string { return m.key + ": " + m.text }

func wrong(key, format string, args ...any) error { return &misfit{key, fmt.Sprintf(format, args...)} }

// Bounds of lists and texts.
const (
	maxWords = 256
	maxItems = 64
)
