package parameter

// StreamOptions is the parameter stream_options.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}
