package main

import "fmt"

// book is the source of the files for one program, in addition to the program's description of its commands.
type book struct {
	program              string
	sources              []string // the Go packages of the programs in its package
	summary, description string   // of its page
	status               [][2]string
	files                [][2]string // of all pages
	operations           string      // the document with the sections of unit pages
	settings             []settingsPage
	units                []unitPage
	// The pages that the page of the program, the pages of settings and the pages of units name.
	seeAlso, settingsSeeAlso, unitSeeAlso []string
}

// settingsPage is a page about a file of settings, made of its reference file.
type settingsPage struct{ name, path, summary, source string }

// unitPage is a page about units, with sections of the book's document for operators.
type unitPage struct {
	unit, summary, synopsis, description string
	paragraphs                           []string // after the description
	sections                             []string
}

// bookOf returns the book of a program.
func bookOf(program string) (book, error) {
	for _, b := range []book{proxyBook, runnerBook} {
		if b.program == program {
			return b, nil
		}
	}
	return book{}, fmt.Errorf("%s has no book: add one to books.go", program)
}
