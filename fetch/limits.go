package fetch

import "time"

// Limits that no setting changes.
const (
	urlMax       = 2048     // bytes of an address
	bodyMax      = 4 << 20  // bytes of a page that are read, after decompression
	wireMax      = 16 << 20 // bytes of one call, redirects included
	shownDefault = 64_000   // bytes of text that a call shows
	shownMax     = 256_000  //
	redirectsMax = 5        // that are followed, all on one host
	callDefault  = time.Minute / 2
)
