// Package etc holds the settings as the packages ship them.
package etc

import _ "embed" // for the file below

// Worker is the worker file of the worker "default", which is also the manual of
// all worker files.
//
//go:embed workers/default.toml
var Worker string
