package jsonscan

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Scanner is a type that Unmarshal fills without reflection, member by member.
type Scanner interface {
	// ScanMember takes one member of the object. It ignores the names that it does not know.
	ScanMember(name, value []byte) error
}

// Unmarshal stores the JSON of data in v, in one pass and by exact names. Duplicate names and invalid UTF-8 are no
// errors: the last value of a name counts, as in encoding/json.
func Unmarshal(data []byte, v any) error {
	if s, ok := v.(Scanner); ok {
		return Scan(data, s)
	}
	return jsonv2.Unmarshal(data, v, lenient)
}

var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Scan passes the members of an object to into; null has none.
func Scan(data []byte, into Scanner) error {
	if string(data) == "null" {
		return nil
	}
	members := Open(data)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		if err := into.ScanMember(name, value); err != nil {
			return err
		}
	}
	return members.err
}
