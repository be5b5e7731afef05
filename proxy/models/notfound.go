package models

import (
	"fmt"
	"slices"
	"strings"

	"codex-proxy/internal/nearest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

const (
	// settingsFile is the file with the table [models.aliases].
	settingsFile = "/etc/codex-proxy/config.toml"
	// listAll is the hint of an answer that names no models.
	listAll = "GET /v1/models lists what there is"
	// maxNamed is the number of models that an answer names.
	maxNamed = 5
)

// NotFound is the answer for a model that does not exist, or not for the key and on the
// accounts of x.
func (c *Catalogue) NotFound(x *proxy.Exchange, model string) *openai.Error {
	limits, visible := x.Key.Limits, c.visible(x.Key.Limits, x.Accounts)
	near := meant(model, visible)
	if x.Form != proxy.Anthropic {
		hint := listAll
		if near != "" {
			hint = near
		}
		return openai.UnknownModel(model, "no ready worker has it, or this key may not use it; "+hint)
	}
	hint := c.mapping(model, limits, x.Accounts)
	switch _, alias := c.find(model); {
	case !limits.Allows(model):
		hint = "this API key may not use it; " + naming(visible, "the key may use ")
	case alias != "":
		hint = fmt.Sprintf("no ready worker has the model that %q has in [models.aliases] of %s", alias, settingsFile)
	case near != "":
		hint = near + " Else " + hint
	}
	return openai.ModelNotFound(fmt.Sprintf("the model `%s` cannot be used: %s", openai.Bounded(model), hint))
}

// meant asks whether the client meant one of these models; empty: none is similar.
func meant(model string, models []string) string {
	near := nearest.To(model, models, 3)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
}

// mapping explains how an operator maps the name to a model. Clients of Anthropic's API
// send names of Anthropic's models, which no worker has.
func (c *Catalogue) mapping(name string, limits auth.Limits, accounts []string) string {
	usable := slices.DeleteFunc(c.workers.Models(accounts...), func(id string) bool { return !limits.Allows(id) })
	target := "MODEL"
	if len(usable) > 0 {
		target = usable[0]
	}
	if strings.HasPrefix(name, "claude-") {
		name = "claude-*"
	}
	return fmt.Sprintf("map it to a model of codex: add the line %q = { model = %q } below [models.aliases] in %s, "+
		"then run: systemctl reload codex-proxy; %s", openai.Bounded(name), target, settingsFile,
		naming(usable, "there are "))
}

// naming names the first of these models, behind the words.
func naming(models []string, words string) string {
	switch {
	case len(models) == 0:
		return listAll
	case len(models) > maxNamed:
		return words + strings.Join(models[:maxNamed], ", ") + " and more: " + listAll
	default:
		return words + strings.Join(models, ", ")
	}
}
