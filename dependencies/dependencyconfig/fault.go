package dependencyconfig

// Bounds of lists and texts.
const (
	maxWords = 256
	maxItems = 64
)
