package scan

// Coverage reports how much of a skill was read.
type Coverage struct {
	Files    int    `json:"files"` // all files
	Bytes    int64  `json:"bytes"`
	Parsed   Part   `json:"parsed"`   // Markdown and shell code, by their grammar
	Searched Part   `json:"searched"` // other text, statement by statement or by patterns
	Unread   Part   `json:"unread"`   // neither
	Skipped  []Skip `json:"skipped"`  // the unread files and the partly read ones, with the reason
	// Unlisted counts files that a limit leaves out of Skipped, Findings those left out of the report.
	Unlisted int `json:"unlisted"`
	Findings int `json:"unlisted_findings"`

	unknown bool // a file is in a language without rules of its own
}

// Part is a part of the files.
type Part struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (p *Part) add(n int64) { p.Files, p.Bytes = p.Files+1, p.Bytes+n }

// Skip is a file that was not read, or only partly.
type Skip struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

const maxSkips = 100

func (c *Coverage) skip(file, reason string) {
	if len(c.Skipped) == maxSkips {
		c.Unlisted++
		return
	}
	c.Skipped = append(c.Skipped, Skip{file, reason})
}

// Percent returns the percentage of the bytes that were read, rounded down.
func (c Coverage) Percent() int {
	if c.Bytes == 0 {
		return 100
	}
	return int((c.Parsed.Bytes + c.Searched.Bytes) * 100 / c.Bytes)
}

// confidence returns how much it says that nothing was found.
func (c Coverage) confidence() Confidence {
	switch p := c.Percent(); {
	case c.Findings > 0:
		return Unsure
	case c.Unread.Files == 0 && len(c.Skipped) == 0 && p == 100 && !c.unknown:
		return Certain
	case p >= 80:
		return Likely
	}
	return Unsure
}
