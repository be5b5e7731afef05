package tested

import (
	"os"
	"testing"
)

// Go keeps the result with the time and the size of the file, and the value of the variable.
func TestData(t *testing.T) {
	text, err := os.ReadFile("data.txt")
	if err != nil || string(text) != "data\n" || os.Getenv("HOME") == "" {
		t.Fatal(err, string(text))
	}
}
