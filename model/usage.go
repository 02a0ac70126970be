package model

// Usage counts tokens. Input excludes what was read from or written to a prompt cache, whatever the
// provider's convention, so the prompt is the sum of Input, CacheRead and CacheWrite. Output
// includes reasoning.
type Usage struct {
	Input      int64    `json:"input"`
	Output     int64    `json:"output"`
	CacheRead  int64    `json:"cacheRead,omitempty"`
	CacheWrite int64    `json:"cacheWrite,omitempty"`
	CostUSD    *float64 `json:"costUsd,omitempty"` // only when the provider reports it
}

// Total returns the number of all tokens, including cached ones.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
}

// Cost returns the cost of u in US dollars: the provider's own figure if there is one, otherwise
// computed from p.
func Cost(u Usage, p Price) float64 {
	if u.CostUSD != nil {
		return *u.CostUSD
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / 1e6
}
