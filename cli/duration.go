package cli

import (
	"fmt"
	"time"
)

// elapsed words a duration for people.
func elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
