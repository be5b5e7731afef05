// Package page has the files of the console's page.
package page

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files are the files of the page.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}
