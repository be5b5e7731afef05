package jsonbody

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// checkMetadata refuses metadata beyond the limits.
func checkMetadata(name string, raw json.RawMessage) error {
	var pairs map[string]Metadatum
	var wrongType *jsonv2.SemanticError
	var tooMany *openai.Error
	err := Unmarshal(raw, &pairs)
	if !errors.As(err, &tooMany) && errors.As(err, &wrongType) {
		at := name + "." + Path(wrongType.JSONPointer)
		return openai.Invalid("invalid_type", at, fmt.Sprintf("%s must be text, not a JSON %s", at,
			Kinds[wrongType.JSONKind]))
	}
	if err != nil { // it is too large, or has too many members
		return openai.Invalid("invalid_value", name, fmt.Sprintf("%s must be %s", name, paramValues["metadata"]))
	}
	_, err = ReadMetadata(pairs)
	return err
}

// ReadMetadata checks the lengths of metadata.
func ReadMetadata(pairs map[string]Metadatum) (map[string]string, error) {
	metadata := make(map[string]string, len(pairs))
	for key, value := range pairs {
		if utf8.RuneCountInString(key) > maxMetadataKey || utf8.RuneCountInString(string(value)) > maxMetadataValue {
			return nil, openai.Invalid("invalid_value", "metadata."+openai.Clip(key),
				fmt.Sprintf("metadata must have keys of up to %d and values of up to %d characters", maxMetadataKey,
					maxMetadataValue))
		}
		metadata[key] = string(value)
	}
	if len(pairs) > maxMetadata { // the body has metadata twice
		return nil, openai.Invalid("invalid_value", "metadata",
			fmt.Sprintf("metadata must not have more than %d members", maxMetadata))
	}
	return metadata, nil
}

// Limits on metadata. Source: OpenAI API reference, "metadata".
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// Metadatum is one value of metadata.
type Metadatum string

// UnmarshalJSONFrom refuses the value after the last allowed one.
func (m *Metadatum) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMetadata); err != nil {
		return err
	}
	return jsonv2.UnmarshalDecode(from, (*string)(m))
}
