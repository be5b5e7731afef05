package openai

import "encoding/json"

const cacheOptions = "prompt_cache_options"

// rawCacheOptions is the parameter prompt_cache_options.
type rawCacheOptions struct {
	Prewarm bool `json:"prewarm"`

	Others map[string]valuePrefix `json:",embed"`
}

// applyCacheOptions applies prewarm, which overrides generate. Source: OpenAI API reference, "prompt_cache_options".
// The other options are ignored.
func (raw rawResponse) applyCacheOptions(req *ResponseRequest) error {
	value := json.RawMessage(raw.Others[cacheOptions])
	if !isObject(value) { // it was checked: it is unset
		return nil
	}
	var options rawCacheOptions
	if unmarshal(value, &options) != nil { // a value longer than maxValue is cut off
		return Invalid("invalid_value", cacheOptions,
			cacheOptions+" must be an object of mode, prewarm and ttl, and prewarm a boolean")
	}
	req.NoGenerate = req.NoGenerate || options.Prewarm
	req.onlyPrewarm = options.Prewarm && len(options.Others) == 0
	return nil
}
