// Package parallel spreads work over all cores.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls f for each index below count, on all cores, until ctx is done. A goroutine takes share
// indexes at a time.
func Each(ctx context.Context, count, share int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (count+share-1)/share) {
		wg.Go(func() {
			for end := int(next.Add(int64(share))); end-share < count && ctx.Err() == nil; end = int(next.Add(int64(share))) {
				for i := end - share; i < min(end, count); i++ {
					f(i)
				}
			}
		})
	}
	wg.Wait()
}
