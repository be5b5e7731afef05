package parameter

import "codex-proxy/proxy/openai"

// TierField is the name of the service tier in a request.
const TierField = "service_tier"

// serviceTiers are the tiers of the OpenAI reference, as codex 0.169 knows them. It omits the default. Its "fast"
// is priority upstream. It drops the tiers that a model lacks, and scale for all models.
var serviceTiers = map[string]string{"": "", "auto": "", "default": "", "flex": "flex", "priority": "priority",
	"fast": "priority", "scale": "scale"}

// CheckTier refuses a service_tier that does not exist.
func CheckTier(tier string) error {
	if _, known := serviceTiers[tier]; !known {
		return openai.Invalid("invalid_value", "service_tier",
			"service_tier must be auto, default, flex, priority, fast or scale")
	}
	return nil
}

// Tier is a service_tier as codex knows it, after CheckTier; empty is the default.
func Tier(tier string) string { return serviceTiers[tier] }
