package models

import (
	"net/url"
	"slices"
	"strconv"

	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai"
)

// Bounds of a page of models in Anthropic's API.
const (
	pageSize    = 20
	maxPageSize = 1000
)

// pageOf is the page of a list of models that a request asks for. The errors are an
// *openai.Error.
// Source: https://docs.anthropic.com/en/api/models-list.
func pageOf(ids []string, query url.Values) (anthropic.ModelList, error) {
	limit := pageSize
	if value := query.Get("limit"); value != "" {
		var err error
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > maxPageSize {
			return anthropic.ModelList{}, openai.Invalid("invalid_value", "limit",
				"limit must be between 1 and "+strconv.Itoa(maxPageSize))
		}
	}
	if wanted := slices.Concat(query["lifecycle"], query["lifecycle[]"]); len(wanted) > 0 &&
		!slices.Contains(wanted, anthropic.LifecycleActive) {
		ids = nil
	}
	if before := query.Get("before_id"); before != "" {
		at, err := placeOf(ids, "before_id", before)
		if err != nil {
			return anthropic.ModelList{}, err
		}
		return anthropic.Models(ids[max(0, at-limit):at], at > limit), nil
	}
	if after := query.Get("after_id"); after != "" {
		at, err := placeOf(ids, "after_id", after)
		if err != nil {
			return anthropic.ModelList{}, err
		}
		ids = ids[at+1:]
	}
	return anthropic.Models(ids[:min(limit, len(ids))], len(ids) > limit), nil
}

// placeOf finds the model that a parameter names.
func placeOf(ids []string, param, id string) (int, error) {
	at := slices.Index(ids, id)
	if at < 0 {
		return 0, openai.Invalid("invalid_value", param, param+" must be the id of a model in the list")
	}
	return at, nil
}
